// Sessions: how much time each has left, and what it has.

import { clock, code, counted, duration, element, filterField, grouped, keyed, svg, visible } from "/dom.js";
import { send } from "/live.js";

const NUMBERS = new Set(["Ephemerals", "Watches"]);
// The parts of the state that the list is made of. The silences of sessions are none: each look finds others.
const LISTED = ["sessions", "totals", "not_seen", "can_act"];
// More rows than fit a screen, and few enough to be laid out anew with each look.
const PAGE = 50;

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
    this.rows = PAGE;
    this.more = element("button", { type: "button", hidden: true, onclick: () => this.next() });
    this.root = element("div", {}, this.field, this.summary, this.told, this.gaps, scroll, this.more);
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
    this.rows = PAGE;
    this.show(this.page.live.state);
  }

  /** Shows more of the rows. */
  next() {
    this.rows += PAGE;
    this.show(this.page.live.state);
  }

  show(state, changed) {
    if (changed && !changed.has("looked_ms")) return;
    if (!state?.totals) {
      this.summary.textContent = "The servers are being asked.";
      // What was shown before may be so no longer.
      this.gaps.replaceChildren();
      keyed(this.body, [], null);
      this.more.hidden = true;
      return;
    }
    this.asOf = state.looked_ms;
    // Most looks find that nothing but the time has gone on.
    if (!changed || LISTED.some((part) => changed.has(part))) this.list(state);
    this.tick();
  }

  list(state) {
    const all = Object.entries(state.sessions);
    const entries = all
      .filter(([id, session]) => this.isWanted(id, session))
      .sort(([a, one], [b, other]) => weight(other) - weight(one) || (a < b ? -1 : 1));
    const known = Math.max(state.totals.sessions, all.length);
    const left = known - all.length;
    const owners = state.totals.sessions < all.length ? " The servers do not tell them: these hold or wait." : "";
    const more = left > 0 ? ` ${counted(left, "session")} not shown: those that hold or wait come first.` : "";
    const filtered = this.filter ? ` The filter shows ${entries.length}.` : "";
    this.summary.textContent = `${counted(known, "session")}.${owners}${more}${filtered}`;
    this.gaps.replaceChildren(...(state.not_seen ?? []).map(gap));
    const rows = entries.slice(0, this.rows).map(([id, session]) => [id, JSON.stringify(session)]);
    keyed(this.body, rows, (id) => this.row(id, state.sessions[id]));
    const hidden = entries.length - rows.length;
    this.more.hidden = hidden === 0;
    this.more.textContent = `Show ${grouped(Math.min(PAGE, hidden))} more of ${grouped(hidden)}`;
  }

  isWanted(id, session) {
    if (!this.filter) return true;
    const texts = [id, session.client, session.server, ...session.holds, ...session.waits];
    return texts.some((text) => text?.toLowerCase().includes(this.filter));
  }

  row(id, session) {
    const left = timeLeft(session);
    const ago = element("span", { class: "ago" });
    const number = (value) => element("td", { class: "number" }, value === null ? "not told" : grouped(value));
    const row = element(
      "tr",
      {},
      element("th", { scope: "row" }, code(id), session.is_console ? element("span", { class: "mark quiet" }, "this console") : null),
      element("td", {}, visible(session.client ?? "not told")),
      element("td", { class: "left" }, left.shown),
      element("td", {}, this.paths(session.holds, session.holds_total)),
      element("td", {}, this.paths(session.waits, session.waits_total)),
      number(session.ephemerals),
      number(session.watches),
      element("td", { class: "last" }, this.actions(id, session), visible(session.last ?? "not told"), " ", ago),
    );
    row.session = { id, timeout: session.timeout_ms, left, ago };
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
    const silences = this.page.live.state?.silences ?? {};
    const passed = Math.max(0, clock() - this.asOf);
    for (const row of this.body.rows) {
      const { id, timeout, left, ago } = row.session;
      const silent = silences[id] ?? null;
      write(ago, silent === null ? "" : `${duration(silent)} ago`);
      if (timeout === null) continue;
      const rest = Math.max(0, timeout - silent - passed);
      const percent = Math.round((rest / timeout) * 100);
      if (left.percent !== percent) {
        left.percent = percent;
        left.front.setAttribute("stroke-dasharray", `${percent} 100`);
        left.ring.classList.toggle("low", rest < timeout / 3);
      }
      write(left.text, rest === 0 ? "may be over" : `${duration(rest)} of ${duration(timeout)}`);
    }
  }
}

/** Changes a text only where it is another one: the browser need not look at the rest again. */
function write(made, text) {
  if (made.textContent !== text) made.textContent = text;
}

/** Sessions with locks first. */
function weight(session) {
  return (session.holds_total ? 2 : 0) + (session.waits_total ? 1 : 0);
}

/** The time left, with its parts that change. */
function timeLeft(session) {
  if (session.timeout_ms === null) return { shown: element("span", {}, "not told") };
  const circle = (name) => svg("circle", { class: name, cx: 10, cy: 10, r: 8, "stroke-width": 3, fill: "none", pathLength: 100 });
  const front = circle("front");
  const ring = svg(
    "svg",
    { class: "ring", viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true" },
    circle("back"),
    front,
  );
  const text = element("span");
  return { shown: element("span", { class: "time-left" }, ring, text), ring, front, text, percent: null };
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
