/** The view Usage: Credit Units over time by surface, workspace or key. */
import { ask, ApiError, poll } from "./api.js";
import { stackedBars, swatch } from "./chart.js";
import { choice, empty, h, panel, replace, row, table } from "./dom.js";
import * as format from "./format.js";
import { errorLine } from "./error-line.js";

const everyMs = 10_000;
const ranges = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["30d", "30 d"],
];
const titles = { surfaces: "Surface", workspaces: "Workspace", keys: "Key" };

export function usageView(session) {
  const isPlatform = session.scope === "platform";
  /** @type {{ range: string, by: string, workspace: string, answer: any }} */
  const state = { range: "24h", by: "surfaces", workspace: "", answer: undefined };
  const error = errorLine();
  const chart = stackedBars("Credit Units over time");
  const total = h("p", { class: "figure" });
  const details = h("div", {}, h("p", { class: "loading" }, "Loading…"));
  const period = h("div", {});

  const show = () => {
    const { answer, by } = state;
    if (answer === undefined) return;
    const lines = answer[by];
    chart.element.hidden = lines.length === 0;
    chart.set({
      from: answer.from,
      stepSeconds: answer.step_seconds,
      unit: format.cuBrief,
      lines: lines.map((line, i) => ({
        label: nameOf(line),
        colour: `series-${i + 1}`,
        values: line.values,
      })),
    });
    replace(
      total,
      h("strong", {}, format.cu(answer.used_cu_milli)),
      h("span", { class: "quiet" }, format.counted(answer.calls, "charge")),
    );
    replace(details, lines.length === 0 ? nothing() : lineTable(lines, titles[by], answer));
    replace(period, answer.period === undefined ? "" : periodPanel(answer.period));
  };
  const path = () => {
    const workspace = state.workspace === "" ? "" : `&workspace=${state.workspace}`;
    return `usage?range=${state.range}${workspace}`;
  };
  const took = (answer) => {
    state.answer = answer;
    show();
  };
  const polling = poll(everyMs, path, took, error.show);
  const groups = Object.entries(titles).filter(([by]) => isPlatform || by !== "workspaces");
  const workspaces =
    isPlatform &&
    workspaceSelect((id) => {
      state.workspace = id;
      void polling.now();
    });
  return {
    element: h(
      "div",
      { class: "view" },
      error.element,
      h(
        "div",
        { class: "tools" },
        choice("Range", ranges, state.range, (range) => {
          state.range = range;
          void polling.now();
        }),
        choice("Group by", groups, state.by, (by) => {
          state.by = by;
          show();
        }),
        workspaces,
      ),
      panel("Credit Units charged", { aside: total }, chart.element, details),
      period,
    ),
    stop() {
      polling.stop();
      chart.stop();
    },
  };
}

/** Creates a list of workspaces, which is filled when they are loaded. */
export function workspaceSelect(choose, first = "All workspaces") {
  const select = h(
    "select",
    { "aria-label": "Workspace", onchange: () => choose(select.value) },
    h("option", { value: "" }, first),
  );
  const fill = async () => {
    try {
      const { workspaces } = await ask("workspaces");
      select.append(
        ...workspaces.map(({ id, name }) =>
          h("option", { value: id }, `${name} (${id.slice(0, 11)})`),
        ),
      );
    } catch (error) {
      // The view's own polling shows the error if there is no answer.
      if (!(error instanceof ApiError)) throw error;
    }
  };
  void fill();
  return select;
}

function nameOf({ id, name }) {
  if (id === undefined) return "Others";
  return name === undefined || name === "" ? id : name;
}

function nothing() {
  return empty(
    "Nothing was charged",
    "Charges of this range appear here as soon as they are on disk.",
  );
}

function lineTable(lines, title, answer) {
  const columns = [
    { title },
    { title: "Charges", number: true },
    { title: "Used", number: true },
    { title: "Share", number: true },
  ];
  const rows = lines.map((line, i) =>
    row(columns, [
      [
        swatch(`series-${i + 1}`),
        nameOf(line),
        line.name !== undefined && line.name !== "" && h("code", {}, line.id),
      ],
      format.count(line.calls),
      format.cuAligned(line.used_cu_milli),
      format.share(line.used_cu_milli, answer.used_cu_milli),
    ]),
  );
  return table(`Credit Units by ${title.toLowerCase()}`, columns, rows).element;
}

function periodPanel(period) {
  const { plan, start } = period;
  const parts = [
    ["Included", period.included_cu_milli, period.plan_includes_cu_milli],
    [
      "Purchased",
      period.purchased_cu_milli,
      period.purchased_cu_milli + period.purchased_left_cu_milli,
    ],
    ["Overage", period.overage_cu_milli, period.overage_limit_cu_milli],
  ];
  return panel(
    `Billing period since ${format.day(start)}`,
    { aside: h("span", { class: "badge quiet" }, `plan ${plan}`) },
    h(
      "ul",
      { class: "bars" },
      ...parts.map(([name, used, limit]) =>
        h(
          "li",
          { fill: limit > 0 ? Math.min(1, used / limit) : 0 },
          h("span", {}, name),
          h(
            "span",
            { class: "number" },
            h("b", {}, format.cu(used)),
            h("small", {}, limit === undefined ? "no limit" : `of ${format.cu(limit)}`),
          ),
        ),
      ),
    ),
  );
}
