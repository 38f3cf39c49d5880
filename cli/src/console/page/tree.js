// The tree: one znode with its Stat, its data and its access control list, and its children in pages.

import { code, element, grouped, visible, visibleLines } from "/dom.js";
import { ask } from "/live.js";

const ROW_BYTES = 16;

export class Tree {
  constructor(page) {
    this.name = "tree";
    this.title = "Tree";
    this.page = page;
    this.path = null;
    this.form = "text";
    // Counts what was asked to be read, so that an answer to what was asked before is known to be out of date.
    this.generation = 0;
    this.isReadingChildren = false;
    this.field = element("input", { class: "filter", "aria-label": "Path of a znode", spellcheck: "false" });
    const go = element(
      "form",
      {
        class: "path",
        onsubmit: (event) => {
          event.preventDefault();
          page.go("tree", this.field.value.trim() || "/");
        },
      },
      this.field,
      element("button", { type: "submit" }, "Open"),
      element("button", { type: "button", onclick: () => this.read() }, "Read again"),
    );
    this.trail = element("nav", { class: "trail", "aria-label": "Ancestors" });
    this.children = element("ul", { class: "children", "aria-label": "Children", onkeydown: (event) => this.move(event) });
    this.childrenNote = element("p", { class: "dim" });
    this.more = element("button", { type: "button", hidden: true, onclick: () => this.readMore() }, "More");
    this.znode = element("div", { class: "znode-pane" });
    const list = element("div", { class: "children-pane" }, element("h2", {}, "Children"), this.childrenNote, this.children, this.more);
    this.root = element("div", { class: "tree" }, go, this.trail, element("div", { class: "panes" }, list, this.znode));
  }

  count() {
    return { text: "", isAlarm: false };
  }

  /** It shows what was read when it was asked for: nothing here is live. */
  show() {}

  open(path) {
    const wanted = path || this.path || "/";
    if (wanted === this.path) return;
    this.path = wanted;
    this.read();
  }

  async read() {
    const path = this.path;
    this.generation += 1;
    this.field.value = path;
    this.trail.replaceChildren(...this.ancestors(path));
    this.children.replaceChildren();
    this.more.hidden = true;
    this.childrenNote.textContent = "The children are being read.";
    this.znode.replaceChildren(element("p", {}, "The znode is being read."));
    await Promise.all([this.readZnode(path), this.next()]);
  }

  ancestors(path) {
    const names = path.split("/").filter((name) => name !== "");
    const link = (name, to) =>
      element("button", { type: "button", class: "link", onclick: () => this.page.go("tree", to) }, code(name));
    const links = [link("/", "/")];
    names.forEach((name, index) => {
      if (index > 0) links.push("/");
      links.push(link(name, `/${names.slice(0, index + 1).join("/")}`));
    });
    return links;
  }

  async readZnode(path) {
    const generation = this.generation;
    let shown;
    try {
      shown = this.znodeOf(await ask("/v1/znode", { path }));
    } catch (failure) {
      shown = [element("p", { class: "trouble" }, visible(failure.message))];
    }
    if (generation === this.generation) this.znode.replaceChildren(...shown);
  }

  /** Pressed twice, it reads one page. */
  async readMore() {
    // The button is not disabled meanwhile: it would lose the focus.
    if (!this.isReadingChildren) await this.next();
  }

  /** Reads the next page of the children. */
  async next() {
    const { path, generation } = this;
    this.isReadingChildren = true;
    const after = this.more.hidden ? {} : { after: this.after };
    try {
      const page = await ask("/v1/children", { path, ...after });
      if (generation !== this.generation) return;
      this.children.append(...page.children.map((child) => this.child(path, child)));
      const shown = this.children.childElementCount;
      const all = shown === page.total ? "" : `${grouped(shown)} of `;
      this.childrenNote.textContent = page.total === 0 ? "None." : `${all}${grouped(page.total)}, in the order of text.`;
      this.after = page.next;
      this.more.hidden = page.next === null;
    } catch (failure) {
      if (generation === this.generation) this.childrenNote.textContent = visible(failure.message);
    } finally {
      if (generation === this.generation) this.isReadingChildren = false;
    }
  }

  child(path, child) {
    const to = `${path === "/" ? "" : path}/${child.name}`;
    const open = element("button", { type: "button", class: "link", onclick: () => this.page.go("tree", to) }, code(child.name));
    return element("li", {}, open, child.recipe ? element("span", { class: "dim" }, ` ${child.recipe}`) : null);
  }

  /** Up and down in the list, right into a znode, left to its parent. */
  move(event) {
    const item = event.target.closest("li");
    const next = { ArrowDown: item?.nextElementSibling, ArrowUp: item?.previousElementSibling }[event.key];
    if (next) next.querySelector("button").focus();
    else if (event.key === "ArrowRight") event.target.click();
    else if (event.key === "ArrowLeft") this.page.go("tree", this.path.replace(/\/[^/]*$/, "") || "/");
    else return;
    event.preventDefault();
  }

  znodeOf(znode) {
    const data = znode.data
      ? this.dataOf(znode.data)
      : [element("p", { class: "trouble" }, visible(znode.unreadable))];
    const acl = znode.acl
      ? element("ul", {}, znode.acl.map((entry) => element("li", {}, code(entry))))
      : element("p", { class: "dim" }, "This client may not see it.");
    return [
      element("h2", {}, "Data"),
      ...data,
      element("h2", {}, "Access control list"),
      acl,
      element("h2", {}, "Stat"),
      znode.stat ? stat(znode.stat) : element("p", { class: "dim" }, "This client may not see it."),
    ];
  }

  dataOf(data) {
    const cut = data.bytes_shown < data.bytes ? `; the first ${grouped(data.bytes_shown)} are shown` : "";
    const note = element("p", { class: "dim" }, `${grouped(data.bytes)} bytes${cut}${data.text === null ? "; it is no text" : ""}.`);
    if (data.bytes === 0) return [note];
    const forms = { hex: () => hexDump(data.base64) };
    if (data.text !== null) {
      forms.text = () => visibleLines(data.text);
      const json = asJson(data.text);
      if (json !== null) forms.JSON = () => visibleLines(json);
    }
    const pre = element("pre", { class: "data", tabindex: 0, "aria-label": "Data" });
    const buttons = Object.keys(forms)
      .sort((a, b) => (a === "hex") - (b === "hex"))
      .map((form) => element("button", { type: "button", onclick: () => show(form) }, form));
    const show = (form) => {
      this.form = form;
      pre.textContent = forms[form]();
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === form));
    };
    show(forms[this.form] ? this.form : buttons[0].textContent);
    return [note, element("div", { class: "forms", role: "group", "aria-label": "Form of the data" }, buttons), pre];
  }
}

// The parts of a JSON text: strings, signs, and what stands between them.
const JSON_PARTS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON with line ends and indents. Its numbers and strings stay as they were written: a number may have more digits than a
 * program can read. */
export function asJson(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null) return null;
  } catch {
    return null;
  }
  let depth = 0;
  let last = "";
  let shown = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const part of text.match(JSON_PARTS)) {
    const isEnd = part === "}" || part === "]";
    if (isEnd) depth -= 1;
    const wasBegin = last === "{" || last === "[";
    if (wasBegin !== isEnd && (wasBegin || isEnd)) shown += line();
    shown += part;
    if (part === ",") shown += line();
    else if (part === ":") shown += " ";
    if (part === "{" || part === "[") depth += 1;
    last = part;
  }
  return shown;
}

function hexDump(base64) {
  const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  const lines = [];
  for (let at = 0; at < bytes.length; at += ROW_BYTES) {
    const row = Array.from(bytes.subarray(at, at + ROW_BYTES));
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const signs = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(ROW_BYTES * 3 - 1)}  ${signs}`);
  }
  return lines.join("\n");
}

const STAT_NAMES = {
  ctime: "created",
  mtime: "data set",
  czxid: "created by zxid",
  mzxid: "data set by zxid",
  pzxid: "children changed by zxid",
  version: "version of the data",
  cversion: "version of the children",
  aversion: "version of the access control list",
  ephemeral_owner: "owner, if ephemeral",
  data_length: "bytes of data",
  num_children: "children",
};

function stat(values) {
  const text = (name) => {
    if (name === "ctime" || name === "mtime") return `${values[name]} (${new Date(values[`${name}_ms`]).toLocaleString()})`;
    if (name === "ephemeral_owner" && values[name] === "0x0") return "none";
    return String(values[name]);
  };
  const rows = Object.entries(STAT_NAMES).map(([name, title]) =>
    element("tr", {}, element("th", { scope: "row" }, title), element("td", {}, code(text(name)))),
  );
  return element("table", { class: "stat" }, element("tbody", {}, rows));
}
