/** The view Pipeline: the compiled routes. Requests run from left to right to the surface that answers. */
import { poll } from "./api.js";
import { badge, choice, empty, h, replace } from "./dom.js";
import * as format from "./format.js";
import { errorLine } from "./error-line.js";

const everyMs = 5_000;

export function pipelineView() {
  const error = errorLine();
  const content = h("div", { class: "routes" }, h("p", { class: "loading" }, "Loading…"));
  /** @type {{ which: string, routes: any[] | undefined }} */
  const state = { which: "all", routes: undefined };
  const show = () => {
    if (state.routes === undefined) return;
    const shown = state.routes.filter((route) => state.which === "all" || requestsOf(route) > 0);
    const none = empty("No requests yet", "Routes appear here with their first request.");
    replace(content, ...(shown.length === 0 ? [none] : shown.map(routePanel)));
  };
  const took = ({ routes }) => {
    state.routes = routes;
    show();
  };
  const polling = poll(everyMs, () => "routes", took, error.show);
  const which = [
    ["all", "All routes"],
    ["used", "With requests"],
  ];
  return {
    element: h(
      "div",
      { class: "view" },
      error.element,
      h(
        "div",
        { class: "tools" },
        choice("Routes", which, state.which, (wanted) => {
          state.which = wanted;
          show();
        }),
      ),
      h(
        "p",
        { class: "hint" },
        "Requests run through the steps to the surface, and responses run back. Each time is the mean since this pipeline was loaded and includes waiting; under load, only a sample of the requests is timed. Requests are counted since the start of the process.",
      ),
      content,
    ),
    stop: polling.stop,
  };
}

function requestsOf({ requests }) {
  return Object.values(requests).reduce((sum, n) => sum + n, 0);
}

function routePanel(route) {
  const { path, methods, steps, surface, requests, at } = route;
  const all = requestsOf(route);
  const spent = [...steps, surface].map(({ mean_ms: mean }) => mean ?? 0);
  const most = Math.max(...spent);
  return h(
    "section",
    { class: "panel route" },
    h(
      "div",
      { class: "panel-head" },
      h(
        "h2",
        {},
        h("span", { class: "methods" }, methods.join(" ")),
        h("span", { class: "path" }, path),
      ),
      h(
        "p",
        { class: "route-counts" },
        all === 0
          ? h("span", { class: "quiet" }, "no requests yet")
          : h("span", {}, h("b", {}, format.count(all)), all === 1 ? " request" : " requests"),
        ...["4xx", "5xx"]
          .filter((name) => requests[name] > 0)
          .map((name) =>
            badge(name === "5xx" ? "bad" : "warn", `${format.count(requests[name])} × ${name}`),
          ),
        path.startsWith("(")
          ? undefined
          : h("small", { class: "quiet" }, `line ${at.split(":")[0]}`),
      ),
    ),
    h(
      "ol",
      { class: "flow", "aria-label": `Steps of ${path}` },
      ...steps.map((step) => stepBox(step, most)),
      stepBox(surface, most, true),
    ),
  );
}

function stepBox(step, most, isSurface = false) {
  const { name, mode, conditional, mean_ms: mean, p95_ms: p95, refusals } = step;
  const { errors, timeouts, skips } = step;
  const refused = Object.entries(refusals);
  const count = refused.reduce((sum, [, n]) => sum + n, 0);
  return h(
    "li",
    {
      class: `step${isSurface ? " surface" : ""}`,
      fill: most > 0 ? (mean ?? 0) / most : 0,
      title: p95 === undefined ? undefined : `95% within ${format.duration(p95)}`,
    },
    h("span", { class: "step-name" }, name),
    h(
      "span",
      { class: "step-time number" },
      mean === undefined ? format.none : format.duration(mean),
    ),
    mode === "shadow" && badge("quiet", "shadow"),
    conditional && badge("quiet", "when"),
    count > 0 &&
      h(
        "span",
        { class: "step-refused", title: refused.map(([code, n]) => `${code} ${n}`).join("\n") },
        `${format.count(count)} refused`,
      ),
    errors > 0 && badge("bad", `${format.count(errors)} failed`),
    timeouts > 0 && badge("bad", `${format.count(timeouts)} late`),
    skips > 0 && badge("warn", `${format.count(skips)} skipped`),
  );
}
