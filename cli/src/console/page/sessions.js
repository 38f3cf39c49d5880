// Sessions: how much time each has left, and what it has.

import { clock, code, counted, duration, element, filterField, grouped, keyed, svg, visible } from "/dom.js";
import { send } from "/live.js";

const NUMBERS = new Set(["Ephemerals", "Watches"]);
const RING = 2 * Math.PI * 8;

export class Sessions {
  constructor(page) {
    this.name = "sessions";
    this.title = "Sessions";
    this.page = page;
    this.filter = "";
    this.summary = element("p", { class: "summary" });
    this.gaps = element("div");
    this.field = filterField("Filter by session, client or path", (text) => this.setFilter(text));
    const heads = ["Session", "Client", "Time left", "Holds", "Waits at", "Ephemerals", "Watches", "Last request"];
    this.body = element("tbody");
    const table = element(
      "table",
      {},
      element("caption", { class: "unseen" }, "Sessions"),
      element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col", class: NUMBERS.has(head) ? "number" : null }, head)))),
      this.body,
    );
    const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Sessions" }, table);
    this.told = element("p", { role: "status", hidden: true });
    this.root = element("div", {}, this.field, this.summary, this.told, this.gaps, scroll);
  }

  count(state) {
    const sessions = state.totals?.sessions ?? 0;
    return { text: sessions ? grouped(sessions) : "", isAlarm: false };
  }

  open(id) {
    this.field.value = id;
    this.filter = id.toLowerCase();
  }

  setFilter(text) {
    this.filter = text;
    this.show(this.page.live.state);
  }

  show(state) {
    if (!state?.totals) {
      this.summary.textContent = "The servers are being asked.";
      return;
    }
    const all = Object.entries(state.sessions);
    const entries = all
      .filter(([id, session]) => this.isWanted(id, session))
      .sort(([a, one], [b, other]) => weight(other) - weight(one) || (a < b ? -1 : 1));
    // Servers that do not tell their sessions: these are the owners of places.
    const known = Math.max(state.totals.sessions, all.length);
    const left = known - all.length;
    const more = left > 0 ? ` ${counted(left, "session")} that neither hold nor wait are not shown.` : "";
    const filtered = this.filter ? ` The filter shows ${entries.length}.` : "";
    this.summary.textContent = `${counted(known, "session")}.${more}${filtered}`;
    this.gaps.replaceChildren(...(state.not_seen ?? []).map(gap));
    keyed(this.body, entries, (id, session) => this.row(id, session));
    this.asOf = state.time_ms;
    this.tick();
  }

  isWanted(id, session) {
    if (!this.filter) return true;
    const texts = [id, session.client, session.server, ...session.holds, ...session.waits];
    return texts.some((text) => text?.toLowerCase().includes(this.filter));
  }

  row(id, session) {
    const number = (value) => element("td", { class: "number" }, grouped(value));
    const row = element(
      "tr",
      {},
      element("th", { scope: "row" }, code(id), session.is_console ? element("span", { class: "mark quiet" }, "this console") : null),
      element("td", {}, visible(session.client ?? "not told")),
      element("td", { class: "left" }, timeLeft(session)),
      element("td", {}, this.paths(session.holds, session.holds_total)),
      element("td", {}, this.paths(session.waits, session.waits_total)),
      number(session.ephemerals),
      number(session.watches),
      element("td", {}, this.actions(id, session), visible(session.last ?? "not told"), session.silent_ms === null ? null : ` ${duration(session.silent_ms)} ago`),
    );
    row.session = session;
    return row;
  }

  /** For tests: what can be done to a session. */
  actions(id, session) {
    if (!this.page.live.state.can_act || session.is_console) return null;
    const button = (action) =>
      element("button", { type: "button", "aria-label": `${action} the session ${id}`, onclick: () => this.act(action, id) }, action);
    return element("div", { class: "actions" }, ["expire", "cut", "freeze", "thaw"].map(button));
  }

  async act(action, session) {
    this.told.hidden = false;
    try {
      await send(`/v1/sessions/${action}`, { session });
      this.told.textContent = `${action} ${session}: done`;
    } catch (failure) {
      this.told.textContent = visible(failure.message);
    }
  }

  paths(paths, total) {
    const shown = paths.map((path) =>
      element("button", { type: "button", class: "link", onclick: () => this.page.go("tree", path) }, code(path)),
    );
    const more = total - paths.length;
    return element("div", { class: "paths" }, shown, more > 0 ? `and ${grouped(more)} more` : null);
  }

  /** Lets the time of all sessions run. */
  tick() {
    for (const row of this.body.rows) {
      const { timeout_ms: timeout, silent_ms: silent } = row.session;
      if (timeout === null) continue;
      const left = Math.max(0, timeout - silent - Math.max(0, clock() - this.asOf));
      const [ring, text] = row.querySelector(".left").firstChild.children;
      ring.lastChild.setAttribute("stroke-dasharray", `${(left / timeout) * RING} ${RING}`);
      ring.classList.toggle("low", left < timeout / 3);
      const words = left === 0 ? "may be over" : `${duration(left)} of ${duration(timeout)}`;
      if (text.textContent !== words) text.textContent = words;
    }
  }
}

/** Sessions with locks first. */
function weight(session) {
  return (session.holds_total ? 2 : 0) + (session.waits_total ? 1 : 0);
}

function timeLeft(session) {
  if (session.timeout_ms === null) return element("span", {}, "not told");
  const circle = (name) => svg("circle", { class: name, cx: 10, cy: 10, r: 8, "stroke-width": 3, fill: "none" });
  const ring = svg(
    "svg",
    { class: "ring", viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true" },
    circle("back"),
    circle("front"),
  );
  return element("span", { class: "time-left" }, ring, element("span"));
}

/** What the servers did not tell, and how to allow it. */
function gap(one) {
  return element(
    "section",
    { class: "gap" },
    element("p", {}, `Not seen: ${visible(one.subject)}: ${visible(one.cause)}. The page lacks ${one.lacks.join(", ")}.`),
    one.cure ? element("p", {}, "To see it: ", code(one.cure)) : null,
  );
}
