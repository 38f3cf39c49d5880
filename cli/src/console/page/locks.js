// Locks: each queue from its front on the left to its end on the right.

import { code, counted, element, filterField, grouped, keyed, since, visible } from "/dom.js";

// What a place does, as a sign beside its word: no meaning is in a colour alone.
const SIGNS = { lock: "●", read: "R", write: "W", permit: "P", lead: "★" };

export class Locks {
  constructor(page) {
    this.name = "locks";
    this.title = "Locks";
    this.page = page;
    this.filter = "";
    this.summary = element("p", { class: "summary" });
    this.cycles = element("div");
    this.list = element("div");
    const filter = filterField("Filter by path, session or client", (text) => {
      this.filter = text;
      this.show(page.live.state);
    });
    this.root = element("div", { class: "locks" }, filter, this.summary, this.cycles, this.list);
  }

  count(state) {
    const waiting = state.totals?.wait ?? 0;
    return { text: waiting ? grouped(waiting) : "", isAlarm: (state.cycles ?? []).length > 0 };
  }

  show(state) {
    if (!state?.totals) {
      this.summary.textContent = state?.trouble ? "The tree cannot be read yet." : "The tree is being read.";
      // What was shown before may be so no longer.
      this.cycles.replaceChildren();
      keyed(this.list, [], null);
      return;
    }
    const { totals } = state;
    const entries = Object.entries(state.locks)
      .filter(([, lock]) => this.isWanted(lock))
      .sort(([, a], [, b]) => b.waiting - a.waiting || (a.path < b.path ? -1 : 1));
    const held = `${counted(totals.locks, "lock")}: ${totals.hold} hold, ${totals.wait} wait.`;
    const seen = `${counted(totals.znodes, "znode")} looked at${totals.is_cut ? `, and there are more than may be looked at. Left out: ${visible(totals.left_out)}` : ""}.`;
    const left = totals.locks - Object.keys(state.locks).length;
    const more = left > 0 ? ` ${counted(left, "lock")} with fewer waiters are not shown.` : "";
    const filtered = this.filter ? ` The filter shows ${entries.length}.` : "";
    this.summary.textContent = `${held} ${seen}${more}${filtered}`;
    this.cycles.replaceChildren(...(state.cycles ?? []).map((cycle) => this.cycle(cycle)));
    keyed(this.list, entries, (_, lock) => this.lock(lock));
  }

  isWanted(lock) {
    if (!this.filter) return true;
    const texts = [lock.path, ...lock.places.flatMap((place) => [place.session, place.client, place.znode])];
    return texts.some((text) => text?.toLowerCase().includes(this.filter));
  }

  /** Who waits for whom in a circle. */
  cycle(steps) {
    const step = (one) =>
      element(
        "li",
        {},
        this.session(one.waiter),
        " waits at ",
        this.path(one.path),
        " for ",
        this.session(one.holder),
      );
    return element(
      "section",
      { class: "cycle" },
      element("h2", {}, `⟳ Deadlock of ${counted(steps.length, "session")}`),
      element("p", {}, "None of them goes on before one gives up or its session ends."),
      element("ol", {}, steps.map(step)),
    );
  }

  lock(lock) {
    const shown = lock.places.length;
    const more = lock.places_total - shown;
    return element(
      "section",
      { class: "lock" },
      element(
        "h2",
        {},
        this.path(lock.path),
        " ",
        element("span", { class: "dim" }, `${lock.recipe}, ${lock.waiting} wait`),
      ),
      lock.herd ? element("p", { class: "alarm-text" }, `⚠ Herd: ${visible(lock.herd)}`) : null,
      element(
        "ol",
        { class: "queue", tabindex: 0, "aria-label": `queue of ${visible(lock.path)}, from its front` },
        lock.places.map((place, index) => this.place(place, index)),
        more > 0 ? element("li", { class: "more" }, `and ${grouped(more)} more`) : null,
      ),
    );
  }

  place(place, index) {
    const holds = place.held_since_ms !== null;
    const isNext = place.behind === index - 1;
    const classes = ["place", place.kind, holds ? "holds" : "waits", place.in_cycle ? "in-cycle" : ""];
    return element(
      "li",
      { class: classes.join(" ").trim() },
      element(
        "p",
        { class: "role" },
        element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[place.kind] ?? "●"),
        ` ${place.role}`,
        place.in_cycle ? element("span", { class: "mark" }, "⟳ deadlock") : null,
      ),
      place.behind !== null && !isNext
        ? element("p", { class: "dim" }, `waits for number ${place.behind + 1} of the queue`)
        : null,
      element("p", {}, place.session ? this.session(place.session) : "no session"),
      place.client ? element("p", { class: "dim" }, visible(place.client)) : null,
      this.times(place, holds),
      element("p", { class: "dim", title: visible(place.znode) }, code(ending(place.znode))),
    );
  }

  times(place, holds) {
    const entered = [holds ? "entered " : "waits for ", since(place.ctime_ms), holds ? " ago" : ""];
    if (!holds) return element("p", {}, entered);
    const held = since(place.held_since_ms);
    const least = place.saw_it_begin ? "holds for " : "holds for at least ";
    return element("p", {}, least, held, element("span", { class: "dim" }, ", ", entered));
  }

  path(path) {
    return element(
      "button",
      { type: "button", class: "link", onclick: () => this.page.go("tree", path) },
      code(path),
    );
  }

  session(id) {
    return element(
      "button",
      { type: "button", class: "link", onclick: () => this.page.go("sessions", id) },
      code(id),
    );
  }
}

/** The end of a name, with its number: names of locks begin with an id of no meaning. */
function ending(name) {
  const signs = Array.from(name);
  return signs.length > 20 ? `…${signs.slice(-18).join("")}` : name;
}
