// Events: what happens to znodes while this view is open, the newest first.

import { code, counted, element, filterField, grouped, visible } from "/dom.js";

const ROWS_MAX = 2_000;
const RETRY_MS = 3_000;
// A page that nobody sees asks for nothing after this time.
const HIDDEN_MS = 10_000;
// A filter is sent when the typing pauses.
const TYPING_MS = 300;

// What happened, as a sign beside its word: no meaning is in a colour alone.
const KINDS = { created: "+", changed: "~", deleted: "−", children: "≡" };
const FILTERED = ["created", "changed", "deleted"];
const COLUMNS = ["Time", "What", "Path", "Transaction"];
const TIME = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});

export class Feed {
  constructor(page) {
    this.name = "events";
    this.title = "Events";
    this.page = page;
    this.filter = "";
    this.kinds = new Set(FILTERED);
    this.source = null;
    this.isOpen = false;
    this.after = null;
    this.last = null;
    this.waiting = [];
    this.lost = 0;
    const field = filterField("Filter by path; with a slash in front, its beginning", (text) => {
      this.filter = text;
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.refilter(), TYPING_MS);
    });
    const kind = (name) =>
      element(
        "label",
        { class: "kind" },
        element("input", { type: "checkbox", checked: true, onchange: (event) => this.setKind(name, event.target.checked) }),
        ` ${KINDS[name]} ${name}`,
      );
    const kinds = element("fieldset", { class: "kinds" }, element("legend", { class: "unseen" }, "Kinds of events"), FILTERED.map(kind));
    const clear = element("button", { type: "button", onclick: () => this.body.replaceChildren() }, "Clear");
    this.status = element("p", { class: "summary", role: "status" });
    this.numbers = element("p", { class: "summary" });
    this.body = element("tbody");
    const heads = COLUMNS.map((head) => element("th", { scope: "col" }, head));
    const table = element(
      "table",
      { class: "feed" },
      element("caption", { class: "unseen" }, "Events, the newest first"),
      element("thead", {}, element("tr", {}, heads)),
      this.body,
    );
    const scroll = element("div", { class: "scroll feed-scroll", tabindex: 0, role: "region", "aria-label": "Events" }, table);
    this.root = element("div", {}, element("div", { class: "path" }, field, kinds, clear), this.status, this.numbers, scroll);
    document.addEventListener("visibilitychange", () => this.seen());
  }

  count() {
    return { text: "", isAlarm: false };
  }

  /** It shows what its own stream tells. */
  show() {}

  open() {
    this.isOpen = true;
    if (!this.source) this.connect();
  }

  /** Another view is shown: the server need not watch any more. */
  close() {
    this.isOpen = false;
    this.disconnect();
    this.mark("This view was not open: what happened until here is not shown.");
  }

  pause(isPaused) {
    if (isPaused) {
      this.disconnect();
      this.mark("Paused: what happened until here is not shown.");
      this.tell("Paused. Nothing is watched.");
    } else if (this.isOpen) {
      this.connect();
    }
  }

  /** Opens the stream, if somebody can see the page: the server watches while there is one. */
  connect() {
    this.disconnect();
    if (this.page.live.isPaused || document.hidden) return;
    if (!this.last) this.tell("The watch is being set.");
    const wanted = { filter: this.filter };
    if (this.kinds.size < FILTERED.length) wanted.kinds = [...this.kinds].join(",") || "none";
    if (this.after !== null) wanted.after = this.after;
    const source = new EventSource(`/v1/feed?${new URLSearchParams(wanted)}`);
    source.addEventListener("feed", (event) => this.take(JSON.parse(event.data), event.lastEventId));
    source.onerror = () => this.failed();
    this.source = source;
  }

  disconnect() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  failed() {
    this.disconnect();
    this.tell("The console does not send events; trying again.");
    this.retry = setTimeout(() => this.connect(), RETRY_MS);
  }

  /** Nothing is watched for a page that nobody sees. */
  seen() {
    clearTimeout(this.unseen);
    if (!this.isOpen) return;
    if (document.hidden) {
      this.unseen = setTimeout(() => {
        this.disconnect();
        this.mark("The page was hidden: what happened until here is not shown.");
      }, HIDDEN_MS);
    } else if (!this.source) {
      this.connect();
    }
  }

  setKind(name, isWanted) {
    if (isWanted) this.kinds.add(name);
    else this.kinds.delete(name);
    this.refilter();
  }

  /** Removes what is not wanted any more; the server sends only what is wanted. */
  refilter() {
    this.render();
    for (const row of [...this.body.rows]) if (row.event && !this.isWanted(row.event)) row.remove();
    if (this.source) this.connect();
  }

  isWanted({ what, path }) {
    if (!this.kinds.has(what)) return false;
    const text = path.toLowerCase();
    return this.filter.startsWith("/") ? text.startsWith(this.filter) : text.includes(this.filter);
  }

  take(message, id) {
    this.after = id;
    const text = {
      opening: "The watch is being set.",
      watching: "Watching. What happens is shown as it happens; a watch is no log, so gaps are marked.",
      unsupported: "This view needs ZooKeeper 3.6 or newer: older servers have no watch on a whole tree.",
      failed: `Not watching: ${visible(message.cause ?? "")}. Trying again.`,
    }[message.status];
    this.tell(text ?? message.status);
    this.tellNumbers(message.totals);
    if (message.lost > 0) this.waiting.push({ what: "skipped", count: message.lost });
    this.waiting.push(...message.events);
    // No more than fit are rendered, however fast they come.
    if (this.waiting.length > ROWS_MAX) this.waiting.splice(0, this.waiting.length - ROWS_MAX);
    this.frame ??= requestAnimationFrame(() => this.render());
  }

  /** A row that tells of a gap. There is one for a gap, however it came. What happened in it is not asked for. */
  mark(text) {
    this.after = null;
    this.render();
    const top = this.body.rows[0];
    if (!top || top.isGap) return;
    const row = markRow(text);
    row.isGap = true;
    this.body.prepend(row);
  }

  render() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    if (this.waiting.length === 0) return;
    const rows = this.waiting.map((event) => this.row(event)).reverse();
    this.waiting = [];
    this.body.prepend(...rows);
    const old = [...this.body.rows].slice(ROWS_MAX);
    for (const row of old) row.remove();
  }

  row(event) {
    const time = event.time_ms ? ` ${TIME.format(event.time_ms)}` : "";
    if (event.what === "began") return markRow(`Watched from here on.${time}`);
    if (event.what === "lost") return markRow(`The connection was lost here: what happened until it was back is not shown.${time}`);
    if (event.what === "skipped") return markRow(`${counted(event.count, "event")} not shown: more came than this view receives.`);
    const path = element("button", { type: "button", class: "link", onclick: () => this.page.go("tree", event.path) }, code(event.path));
    const row = element(
      "tr",
      {},
      element("td", { class: "time" }, TIME.format(event.time_ms)),
      element("td", {}, element("span", { class: "sign", "aria-hidden": "true" }, KINDS[event.what] ?? "?"), ` ${event.what}`),
      element("td", {}, path, event.recipe ? element("span", { class: "dim" }, ` ${event.recipe}`) : null),
      element("td", {}, event.zxid ? code(event.zxid) : element("span", { class: "dim" }, "not told")),
    );
    row.event = event;
    return row;
  }

  tell(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  /** How many events there were since the watch was set, and how many come in a second. */
  tellNumbers(totals) {
    const now = performance.now();
    const all = Object.values(totals).reduce((sum, count) => sum + count, 0);
    if (!this.last || all < this.last.all) this.last = { now, all, rate: null };
    if (now - this.last.now >= 1000) {
      const rate = Math.round((all - this.last.all) / ((now - this.last.now) / 1000));
      this.last = { now, all, rate };
    }
    const rate = this.last.rate === null ? "" : `; ${counted(this.last.rate, "event")} in a second`;
    const kinds = FILTERED.map((kind) => `${grouped(totals[kind])} ${kind}`).join(", ");
    this.numbers.textContent = `Since the watch was set: ${kinds}${rate}. The last ${grouped(ROWS_MAX)} are kept.`;
  }
}

function markRow(text) {
  const row = element("tr", { class: "gap-row" }, element("td", { colspan: COLUMNS.length }, text));
  row.event = null;
  return row;
}
