// The live state: received once as a whole, and then as changes.

const KEYED = ["locks", "sessions"];
// A page that nobody sees asks for nothing after this time.
const HIDDEN_MS = 10_000;
const RETRY_MS = 3_000;

/** Receives the state, and tells `onstate(state, changed)` and `onstatus(name, text)`. */
export class Live {
  constructor(onstate, onstatus) {
    this.onstate = onstate;
    this.onstatus = onstatus;
    this.state = null;
    this.isPaused = false;
    this.source = null;
    this.retry = null;
    document.addEventListener("visibilitychange", () => this.seen());
  }

  open() {
    this.close();
    const source = new EventSource("/v1/events");
    source.addEventListener("snapshot", (event) => this.take(JSON.parse(event.data)));
    source.addEventListener("diff", (event) => this.change(JSON.parse(event.data)));
    source.onerror = () => this.failed();
    this.source = source;
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    if (isPaused) {
      this.close();
      this.onstatus("paused", "paused");
    } else {
      this.onstatus("connecting", "connecting");
      this.open();
    }
  }

  take(state) {
    this.state = state;
    this.onstatus("live", "live");
    this.onstate(state, new Set(Object.keys(state)));
  }

  change(changes) {
    if (!this.state) return;
    for (const [name, change] of Object.entries(changes)) {
      if (KEYED.includes(name)) {
        for (const key of change.gone) delete this.state[name][key];
        Object.assign(this.state[name], change.put);
      } else {
        this.state[name] = change;
      }
    }
    this.onstatus("live", "live");
    this.onstate(this.state, new Set(Object.keys(changes)));
  }

  /** The connection is lost, or was refused: the answer says which. */
  async failed() {
    this.close();
    let text = "not connected; trying again";
    try {
      const answer = await fetch("/v1/console");
      if (answer.status === 401) {
        this.onstatus("login", "a token is needed");
        return;
      }
      if (!answer.ok) text = (await answer.json()).error;
    } catch {
      text = "the console does not answer; trying again";
    }
    this.onstatus("lost", text);
    this.retry = setTimeout(() => this.open(), RETRY_MS);
  }

  /** Nothing is received for a page that nobody sees. */
  seen() {
    clearTimeout(this.unseen);
    if (this.isPaused) return;
    if (document.hidden) {
      this.unseen = setTimeout(() => this.close(), HIDDEN_MS);
    } else if (!this.source) {
      this.open();
    }
  }
}

/** A request for JSON. Fails with the text that the console gave. */
export async function ask(path, parameters = {}) {
  const query = new URLSearchParams(parameters);
  return read(await fetch(`${path}?${query}`));
}

/** A request that changes something. */
export async function send(path, value) {
  return read(
    await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(value),
    }),
  );
}

async function read(answer) {
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(value.error ?? `the console answers ${answer.status}`);
  return value;
}
