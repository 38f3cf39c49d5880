// Asks for the token of the console, until it is the right one.

import { send } from "/live.js";

const byId = (id) => document.getElementById(id);

export class Login {
  /** `onlogin()` is told when the console has let the person in. */
  constructor(onlogin) {
    this.onlogin = onlogin;
    this.isNeeded = false;
    this.dialog = byId("login");
    // There is nothing behind it to go back to.
    this.dialog.addEventListener("cancel", (event) => event.preventDefault());
    this.dialog.addEventListener("close", () => this.isNeeded && this.ask());
    byId("login-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  ask() {
    this.isNeeded = true;
    if (!this.dialog.open) this.dialog.showModal();
  }

  async submit() {
    const [error, token] = [byId("login-error"), byId("login-token")];
    try {
      await send("/v1/login", { token: token.value });
    } catch (failure) {
      error.textContent = failure.message;
      error.hidden = false;
      return;
    }
    token.value = "";
    error.hidden = true;
    this.isNeeded = false;
    this.dialog.close();
    this.onlogin();
  }
}
