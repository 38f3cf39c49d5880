// The live state: received once as a whole, and then as changes.

const KEYED = ["locks", "sessions"];
// A page that nobody sees asks for nothing after this time.
const HIDDEN_MS = 10_000;
const RETRY_MS = 3_000;
// Three heartbeats of the console: after so long without a word the connection is gone.
const SILENT_MS = 30_000;
const ANSWER_MS = 10_000;

/** Receives the state, and tells `onstate(state, changed)` and `onstatus(name, text)`. */
export class Live {
  constructor(onstate, onstatus) {
    this.onstate = onstate;
    this.onstatus = onstatus;
    this.state = null;
    this.isPaused = false;
    this.source = null;
    this.retry = null;
    this.silence = null;
    // Counts what was opened and closed, so that what was begun before is known to be out of date.
    this.generation = 0;
    document.addEventListener("visibilitychange", () => this.seen());
  }

  /** Opens the stream, if somebody can see the page. */
  open() {
    this.close();
    if (this.isPaused) return;
    if (document.hidden) {
      this.onstatus("waiting", "waiting until the page is seen");
      return;
    }
    const source = new EventSource("/v1/events");
    const listen = (name, take) =>
      source.addEventListener(name, (event) => {
        this.listen();
        take(JSON.parse(event.data));
      });
    listen("snapshot", (state) => this.take(state));
    listen("diff", (changes) => this.change(changes));
    listen("heartbeat", () => {});
    source.onerror = () => this.failed();
    this.source = source;
    this.listen();
  }

  /** A stream on which nothing comes is given up: the other side may be gone without a word. */
  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.failed(), SILENT_MS);
  }

  close() {
    this.generation += 1;
    clearTimeout(this.retry);
    clearTimeout(this.silence);
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
    this.tell();
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
    this.tell();
    this.onstate(this.state, new Set(Object.keys(changes)));
  }

  /** Tells whether what is shown is of now. */
  tell() {
    if (this.state.silent) this.onstatus("silent", "the servers do not answer");
    else this.onstatus("live", "live");
  }

  /** The connection is lost, or was refused: the console says why. */
  async failed() {
    this.close();
    const generation = this.generation;
    const [name, text] = await this.reason();
    if (generation !== this.generation) return;
    this.onstatus(name, text);
    if (name === "lost") this.retry = setTimeout(() => this.open(), RETRY_MS);
  }

  async reason() {
    try {
      const answer = await fetch("/v1/console", { signal: AbortSignal.timeout(ANSWER_MS) });
      if (answer.status === 401) return ["login", "a token is needed"];
      const { error, no_view: full } = await answer.json();
      return ["lost", error ?? full ?? "not connected; trying again"];
    } catch {
      return ["lost", "the console does not answer; trying again"];
    }
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
