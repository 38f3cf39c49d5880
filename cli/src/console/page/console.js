// The frame of the page: views, their tabs, keys, and the state of the connection.

import { Charts } from "/charts.js";
import { element, setClock, since, tick, visible } from "/dom.js";
import { Feed } from "/feed.js";
import { Findings } from "/findings.js";
import { Live } from "/live.js";
import { Locks } from "/locks.js";
import { Login } from "/login.js";
import { Sessions } from "/sessions.js";
import { Tree } from "/tree.js";
import { Watches } from "/watches.js";

const byId = (id) => document.getElementById(id);
const page = { go, live: null };
const views = [Locks, Sessions, Watches, Tree, Charts, Findings, Feed].map((View) => new View(page));
let shown = null;

// Tabs, by the pattern that screen readers know.
for (const [index, view] of views.entries()) {
  view.tab = element(
    "button",
    {
      type: "button",
      role: "tab",
      id: `tab-${view.name}`,
      "aria-controls": "view",
      "aria-keyshortcuts": String(index + 1),
      onclick: () => go(view.name),
      onkeydown: (event) => moveTab(event, index),
    },
    view.title,
    (view.badge = element("span", { class: "badge", hidden: true })),
  );
  byId("tabs").append(view.tab);
}

function moveTab(event, index) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = views[(index + step + views.length) % views.length];
  go(next.name);
  next.tab.focus();
  event.preventDefault();
}

/** Shows a view, with what it is to show first. The address names both, so that it can be kept. */
function go(name, detail = "") {
  const hash = `#${name}${detail && ":" + encodeURIComponent(detail)}`;
  if (location.hash === hash) route();
  else location.hash = hash;
}

function route() {
  const [name, detail = ""] = location.hash.slice(1).split(":");
  const view = views.find((known) => known.name === name) ?? views[0];
  for (const other of views) {
    other.tab.setAttribute("aria-selected", String(other === view));
    other.tab.tabIndex = other === view ? 0 : -1;
  }
  const main = byId("view");
  if (shown !== view) {
    shown?.close?.();
    main.replaceChildren(view.root);
    main.setAttribute("role", "tabpanel");
    main.setAttribute("aria-labelledby", view.tab.id);
    // Not all tabs fit a telephone.
    view.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    shown = view;
  }
  let given = "";
  try {
    given = decodeURIComponent(detail);
  } catch {
    // Somebody has typed it: it names nothing.
  }
  view.open?.(given);
  if (live.state) view.show(live.state, null);
}

const live = new Live(onstate, onstatus);
const login = new Login(() => live.open());
page.live = live;

function onstate(state, changed) {
  // The time is that of the moment in which it was sent, and not of now.
  if (changed.has("time_ms")) setClock(state.time_ms ?? Date.now());
  byId("server").textContent = visible(`${state.server ?? ""} ${state.path ?? ""}`);
  document.title = `zoolet console: ${visible(state.server ?? "")}`;
  const trouble = byId("trouble");
  trouble.hidden = !state.trouble;
  trouble.textContent = visible(state.trouble ?? "");
  if (changed.has("silent")) showSilence(state.silent);
  for (const view of views) {
    const { text, isAlarm } = view.count(state);
    view.badge.hidden = text === "";
    view.badge.textContent = text;
    view.badge.classList.toggle("alarm", isAlarm);
  }
  shown.show(state, changed);
}

/** Tells how old is what is shown. An age that runs is no news for a screen reader. */
function showSilence(silent) {
  const shown = byId("silence");
  shown.hidden = !silent;
  const answered = silent?.answered_ms;
  const text = "The servers do not answer.";
  byId("silence-text").textContent = !silent ? "" : answered ? `${text} What is shown is old: ` : text;
  byId("silence-age").replaceChildren(...(answered ? [since(answered)] : []));
}

function onstatus(name, text) {
  const status = byId("status");
  if (status.dataset.state !== name || name === "lost") {
    status.dataset.state = name;
    status.textContent = text;
  }
  if (name === "login") login.ask();
}

const pauseButton = byId("pause");
pauseButton.addEventListener("click", () => {
  live.pause(!live.isPaused);
  for (const view of views) view.pause?.(live.isPaused);
  pauseButton.setAttribute("aria-pressed", String(live.isPaused));
  pauseButton.textContent = live.isPaused ? "Go on" : "Pause";
});

const keys = [
  ...views.map((view, index) => [String(index + 1), `show ${view.title}`]),
  ["/", "go to the filter or the path"],
  ["p", "pause, or go on"],
  ["?", "show the keys"],
  ["Arrow keys", "move between tabs, and in the tree"],
];
for (const [key, meaning] of keys) {
  byId("help-keys").append(
    element("dt", {}, element("kbd", {}, key)),
    element("dd", {}, meaning),
  );
}
byId("help-open").addEventListener("click", () => byId("help").showModal());

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, dialog");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = views[Number(event.key) - 1];
  if (view) go(view.name);
  else if (event.key === "/") shown.root.querySelector("input")?.focus();
  else if (event.key === "p") pauseButton.click();
  else if (event.key === "?") byId("help").showModal();
  else return;
  event.preventDefault();
});

addEventListener("hashchange", route);
setInterval(() => {
  if (!live.isPaused && live.state) {
    tick(byId("view"));
    tick(byId("silence"));
    shown.tick?.();
  }
}, 500);
route();
live.open();
