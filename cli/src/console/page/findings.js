// Findings: what zoolet doctor finds wrong, the worst first.

import { code, counted, element, grouped, visible } from "/dom.js";

const SIGNS = { critical: "✖", warning: "⚠", notice: "ℹ" };

export class Findings {
  constructor(page) {
    this.name = "findings";
    this.title = "Findings";
    this.page = page;
    this.root = element("div", { class: "findings" });
  }

  count(state) {
    const findings = state.findings ?? [];
    const isAlarm = findings.some((finding) => finding.severity === "critical");
    return { text: state.totals?.findings ? grouped(state.totals.findings) : "", isAlarm };
  }

  show(state, changed) {
    if (changed && !changed.has("findings") && !changed.has("totals")) return;
    if (!state.totals) {
      this.root.replaceChildren(element("p", { class: "summary" }, "The servers are being looked at."));
      return;
    }
    const { findings } = state;
    const left = state.totals.findings - findings.length;
    const more = left > 0 ? ` ${counted(left, "more")} of the least severe are not shown.` : "";
    const summary = findings.length === 0 ? "Nothing is wrong." : `${counted(state.totals.findings, "finding")}.${more}`;
    this.root.replaceChildren(element("p", { class: "summary" }, summary), ...findings.map((one) => this.finding(one)));
  }

  finding(finding) {
    const path = (path) =>
      element("button", { type: "button", class: "link", onclick: () => this.page.go("tree", path) }, code(path));
    return element(
      "section",
      { class: `finding ${finding.severity}` },
      element(
        "h2",
        {},
        element("span", { class: "severity" }, `${SIGNS[finding.severity]} ${finding.severity}`),
        ` ${finding.kind} `,
        finding.paths.slice(0, 10).flatMap((one) => [path(one), " "]),
        finding.paths.length > 10 ? `and ${finding.paths.length - 10} more` : null,
      ),
      element("p", { class: "what" }, visible(finding.what)),
      finding.details.length ? element("ul", {}, finding.details.map((detail) => element("li", {}, visible(detail)))) : null,
      element("p", {}, element("b", {}, "Why it matters: "), finding.why),
      element("p", {}, element("b", {}, "What to do: "), finding.do),
    );
  }
}
