// Watches: how many sessions each change wakes.

import { code, counted, element, filterField, grouped, keyed } from "/dom.js";

export class Watches {
  constructor(page) {
    this.name = "watches";
    this.title = "Watches";
    this.page = page;
    this.filter = "";
    this.summary = element("p", { class: "summary" });
    this.fan = element("ul", { class: "fan", "aria-label": "Paths by their number of watchers" });
    const filter = filterField("Filter by path or session", (text) => {
      this.filter = text;
      this.show(page.live.state);
    });
    this.body = element("tbody");
    const heads = element("tr", {}, ["Path", "Watchers", "Sessions"].map((head) => element("th", { scope: "col" }, head)));
    const table = element("table", {}, element("thead", {}, heads), this.body);
    const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Watched paths" }, table);
    this.root = element("div", {}, filter, this.summary, this.fan, scroll);
  }

  count(state) {
    const watches = state.watches?.watches ?? 0;
    return { text: watches ? grouped(watches) : "", isAlarm: false };
  }

  show(state, changed) {
    if (changed && !changed.has("watches")) return;
    const { watches } = state ?? {};
    if (!watches) {
      this.summary.textContent = "The servers are being asked.";
      // What was shown before may be so no longer.
      this.fan.replaceChildren();
      keyed(this.body, [], null);
      return;
    }
    const missing = watches.is_whole ? "" : " Not all servers told theirs: see Sessions.";
    this.summary.textContent =
      `${counted(watches.watches, "data watch", "data watches")} on ${counted(watches.paths, "path")}.${missing}`;
    const most = Math.max(1, ...watches.fan_out.map((bucket) => bucket.paths));
    this.fan.replaceChildren(...watches.fan_out.map((bucket) => this.bucket(bucket, most)));
    const wanted = (one) =>
      !this.filter || one.path.toLowerCase().includes(this.filter) || one.sessions.some((id) => id.includes(this.filter));
    const entries = watches.most.filter(wanted).map((one) => [one.path, one]);
    // The list comes anew each time; a row is the same if its text is.
    keyed(
      this.body,
      entries.map(([path, one]) => [path, JSON.stringify(one)]),
      (_, text) => this.row(JSON.parse(text)),
    );
  }

  bucket({ from, to, paths }, most) {
    const range = to === null ? `${grouped(from)} or more` : from === to ? String(from) : `${from} to ${to}`;
    const bar = element("meter", { min: 0, max: most, value: paths, "aria-hidden": "true" });
    return element("li", {}, element("span", {}, `${range} ${to === 1 ? "watcher" : "watchers"}`), bar, element("span", {}, counted(paths, "path")));
  }

  row(one) {
    const path = element("button", { type: "button", class: "link", onclick: () => this.page.go("tree", one.path) }, code(one.path));
    const sessions = one.sessions.map((id) =>
      element("button", { type: "button", class: "link", onclick: () => this.page.go("sessions", id) }, code(id)),
    );
    const more = one.watchers - one.sessions.length;
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, path),
      element("td", { class: "number" }, grouped(one.watchers)),
      element("td", {}, element("div", { class: "ids" }, sessions, more > 0 ? `and ${grouped(more)} more` : null)),
    );
  }
}
