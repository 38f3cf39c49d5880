// Charts: what this page has received since it was opened, up to some minutes of it.

import { duration, element, grouped, svg } from "/dom.js";

const SAMPLES_MAX = 900;
const WIDTH = 320;
const HEIGHT = 90;

// Each line has a dash of its own beside its colour.
const CHARTS = [
  { title: "Requests in a second", lines: [["received", (sample) => sample.received]] },
  { title: "Replies and events in a second", lines: [["sent", (sample) => sample.sent]] },
  {
    title: "Latency that 99 of 100 requests keep, in ms",
    lines: [["reads", (sample) => sample.p99_readlatency], ["writes", (sample) => sample.p99_updatelatency]],
  },
  { title: "Requests that wait in the servers", lines: [["waiting", (sample) => sample.outstanding_requests]] },
  { title: "Places of locks", lines: [["hold", (sample) => sample.hold], ["wait", (sample) => sample.wait]] },
  { title: "Hand-overs seen in a minute", lines: [["hand-overs", (sample) => sample.handOvers]] },
  { title: "Sessions", lines: [["sessions", (sample) => sample.sessions]] },
];

export class Charts {
  constructor(page) {
    this.name = "charts";
    this.title = "Charts";
    this.page = page;
    this.samples = [];
    this.last = null;
    this.note = element("p", { class: "summary" });
    this.charts = element("div", { class: "charts" });
    this.root = element("div", {}, this.note, this.charts);
  }

  /** Every look at the servers is a sample, whichever view is shown. */
  count(state) {
    if (state.totals && state.looked_ms !== this.last?.time_ms) this.take(state);
    return { text: "", isAlarm: false };
  }

  take(state) {
    const { looked_ms: time_ms, totals, metrics } = state;
    const { last } = this;
    const seconds = last ? (time_ms - last.time_ms) / 1000 : 0;
    // A counter that is smaller than before was reset: there is no rate then.
    const rate = (now, before, per = 1) => (seconds > 0 && now >= before ? ((now - before) / seconds) * per : null);
    // A sum of other servers is another one.
    const before = String(last?.metrics?.servers) === String(metrics?.servers) ? last?.metrics : null;
    this.samples.push({
      time_ms,
      hold: totals.hold,
      wait: totals.wait,
      sessions: totals.sessions,
      handOvers: rate(totals.hand_overs, last?.totals.hand_overs, 60),
      received: rate(metrics?.packets_received, before?.packets_received),
      sent: rate(metrics?.packets_sent, before?.packets_sent),
      p99_readlatency: metrics?.p99_readlatency ?? null,
      p99_updatelatency: metrics?.p99_updatelatency ?? null,
      outstanding_requests: metrics?.outstanding_requests ?? null,
    });
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
    this.last = { time_ms, totals: { ...totals }, metrics: metrics && { ...metrics } };
  }

  show(state, changed) {
    if (changed && !changed.has("looked_ms")) return;
    if (this.samples.length === 0) {
      this.note.textContent = "Nothing was received yet.";
      return;
    }
    const span = duration(this.samples.at(-1).time_ms - this.samples[0].time_ms);
    const lacks = state.metrics ? "" : " The servers do not tell their metrics: allow the word mntr.";
    this.note.textContent = `The last ${span}, as this page received it.${lacks}`;
    this.charts.replaceChildren(...CHARTS.map((chart) => this.chart(chart)));
  }

  chart({ title, lines }) {
    const drawn = lines.map(([name, value]) => ({ name, values: this.samples.map(value) }));
    const known = drawn.flatMap(({ values }) => values.filter((value) => value !== null));
    if (known.length === 0) return element("figure", {}, element("figcaption", {}, title), element("p", { class: "dim" }, "not told"));
    const most = Math.max(1, ...known);
    const latest = drawn.map(({ name, values }) => `${name} ${number(values.findLast((value) => value !== null))}`).join(", ");
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: now ${latest}; at most ${number(most)}` },
      svg("line", { class: "axis", x1: 0, y1: HEIGHT - 1, x2: WIDTH, y2: HEIGHT - 1 }),
      drawn.map(({ values }, index) => svg("path", { class: `line line-${index}`, d: this.path(values, most) })),
    );
    const legend = drawn.map(({ name, values }, index) =>
      element("span", { class: `legend line-${index}` }, `${name} ${number(values.findLast((value) => value !== null))}`),
    );
    return element(
      "figure",
      {},
      element("figcaption", {}, title, element("span", { class: "dim" }, ` up to ${number(most)}`)),
      picture,
      element("p", { class: "legends" }, legend),
    );
  }

  /** A line, with gaps where nothing is known. */
  path(values, most) {
    const first = this.samples[0].time_ms;
    const span = Math.max(1, this.samples.at(-1).time_ms - first);
    let isOn = false;
    return values
      .map((value, index) => {
        if (value === null) {
          isOn = false;
          return "";
        }
        const x = ((this.samples[index].time_ms - first) / span) * WIDTH;
        const y = HEIGHT - 3 - (value / most) * (HEIGHT - 6);
        const step = `${isOn ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
        isOn = true;
        return step;
      })
      .join("");
  }
}

function number(value) {
  if (value === null || value === undefined) return "not told";
  return grouped(value >= 10 ? Math.round(value) : Math.round(value * 10) / 10);
}
