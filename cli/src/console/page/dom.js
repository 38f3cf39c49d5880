// Makes elements. Whatever comes from a server becomes text, never markup.

/** An element with attributes and children. `onclick` and the like are listeners; null is left out. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// Control characters, and those that change the order in which others are shown.
const UNSEEN = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** A text with what cannot be seen made visible: for names and paths. */
export function visible(text) {
  return String(text).replace(UNSEEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

/** A text with its line ends, the rest made visible: for data. */
export function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}

/** A name or a path, isolated from the direction of the text around it. */
export function code(text, attributes = {}) {
  return element("code", { dir: "ltr", ...attributes }, element("bdi", {}, visible(text)));
}

/** "1 lock", "2 locks". */
export function counted(count, one, many = `${one}s`) {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** A number with its thousands separated. */
export function grouped(number) {
  return Number(number).toLocaleString("en");
}

/** A time for a person, with one unit. */
export function duration(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(Math.max(0, ms))} ms`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

// How far the clock of the console's machine is ahead of this one's, in milliseconds.
let ahead = 0;

/** Takes the time of the console's machine, by which all ages are told. */
export function setClock(ms) {
  ahead = ms - Date.now();
}

/** The present time of the console's machine. */
export function clock() {
  return Date.now() + ahead;
}

/** The time that has passed since a moment, which goes on by itself. */
export function since(ms) {
  const at = new Date(ms);
  const made = element("time", {
    // A server may tell any number, also one that is no time.
    datetime: Number.isNaN(at.getTime()) ? null : at.toISOString(),
    title: at.toLocaleString(),
    "data-since": ms,
  });
  made.textContent = duration(clock() - ms);
  return made;
}

/** Lets all times go on. */
export function tick(root) {
  for (const made of root.querySelectorAll("[data-since]")) {
    const text = duration(clock() - Number(made.dataset.since));
    if (made.textContent !== text) made.textContent = text;
  }
}

/** A field that filters what is shown below it. */
export function filterField(label, onchange) {
  return element("input", {
    type: "search",
    class: "filter",
    placeholder: label,
    "aria-label": label,
    oninput: (event) => onchange(event.target.value.trim().toLowerCase()),
  });
}

/**
 * Keeps the children of an element equal to entries in order. Only those whose value is another one are
 * made again, so that focus and scrolling stay.
 */
export function keyed(parent, entries, make) {
  const old = parent.keyed ?? new Map();
  const made = new Map();
  let at = parent.firstChild;
  for (const [key, value] of entries) {
    const known = old.get(key);
    let shown = known?.shown;
    if (known?.value !== value) {
      const fresh = make(key, value);
      if (shown) {
        if (at === shown) at = shown.nextSibling;
        const scrolled = shown.querySelector(".queue")?.scrollLeft;
        shown.replaceWith(fresh);
        if (scrolled) fresh.querySelector(".queue").scrollLeft = scrolled;
        at = at === fresh ? fresh.nextSibling : at;
      }
      if (fresh.nextSibling !== at || !fresh.isConnected) parent.insertBefore(fresh, at);
      shown = fresh;
    } else if (shown === at) {
      at = at.nextSibling;
    } else {
      parent.insertBefore(shown, at);
    }
    made.set(key, { value, shown });
  }
  for (const [key, { shown }] of old) if (!made.has(key)) shown.remove();
  parent.keyed = made;
}
