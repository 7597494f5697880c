/** Routes in use come first. Requests run from left to right to the surface that answers. */
import { Badge, Empty, ErrorLine, Loading, Panel } from "../parts/basics.js";
import { Choice } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { filter } from "../parts/router.js";
import { PipelineFile } from "./pipeline-file.js";
import { PipelineStores } from "./pipeline-stores.js";

const everyMs = 5_000;
const parts = [
  ["routes", "Routes"],
  ["file", "File"],
  ["stores", "Gateways and stores"],
];
const which = [
  ["all", "All routes"],
  ["used", "With requests"],
];

export function PipelineView() {
  const { data, error } = usePolled("routes", everyMs);
  const part = filter("show", "routes");
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    ${data !== undefined && html`<${Reload} reload=${data.reload} generation=${data.generation} />`}
    <div class="tools">
      <${Choice} label="Show" options=${parts} chosen=${part} name="show" />
    </div>
    ${part === "file" && html`<${PipelineFile} faults=${data?.reload.faults ?? []} />`}
    ${part === "stores" && html`<${PipelineStores} />`}
    ${part !== "file" && part !== "stores" && html`<${AllRoutes} routes=${data?.routes} />`}
  </div>`;
}

function AllRoutes({ routes }) {
  const isUsed = routes?.some((route) => requestsOf(route) > 0) ?? false;
  const chosen = filter("routes", isUsed ? "used" : "all");
  return html`<div class="tools">
      <${Choice} label="Routes" options=${which} chosen=${chosen} name="routes" />
    </div>
    <p class="hint">
      Requests run through the steps to the surface, and responses run back. Each time is the mean
      and includes waiting; under load, only a sample of the requests is timed. Routes with the same
      path share the counts of a step. All counts are since the start of the process.
    </p>
    <div class="routes"><${Routes} routes=${routes} which=${chosen} /></div>`;
}

function Reload({ reload: { loadedAt, failedAt, faults }, generation }) {
  if (faults.length === 0) {
    return html`<p class="status">
      <${Badge} meaning="ok">loaded<//>
      <span>Generation ${format.count(generation)}, loaded at ${format.instant(loadedAt)}.</span>
    </p>`;
  }
  const state = html`<${Badge} meaning="bad">refused at ${format.instant(failedAt)}<//>`;
  return html`<${Panel} title="pipeline.yaml was not loaded" aside=${state}>
    <p>
      Generation ${format.count(generation)}, loaded at ${format.instant(loadedAt)}, continues to
      serve. The file on disk has these faults:
    </p>
    <ul class="faults">
      ${faults.map(
        ({ code, message, remedy, at, didYouMean }) =>
          html`<li>
            <b>${at === undefined ? "" : `line ${at.line}, column ${at.col}: `}${message}</b>
            ${didYouMean !== undefined && html`<span>Did you mean ${didYouMean}?</span>`}
            <span class="quiet">${remedy}</span>
            <code>${code}</code>
          </li>`,
      )}
    </ul>
  <//>`;
}

function Routes({ routes, which: wanted }) {
  if (routes === undefined) return html`<${Loading} />`;
  const shown = routes
    .filter((route) => wanted === "all" || requestsOf(route) > 0)
    .toSorted((a, b) => requestsOf(b) - requestsOf(a));
  if (shown.length === 0) {
    return html`<${Empty} title="No requests yet">Routes appear here with their first request.<//>`;
  }
  return shown.map((route) => html`<${Route} key=${route.at + route.path} route=${route} />`);
}

function requestsOf({ requests }) {
  return Object.values(requests).reduce((sum, n) => sum + n, 0);
}

function Route({ route }) {
  const { path, methods, steps, surface, requests, at } = route;
  const all = requestsOf(route);
  const spent = [...steps, surface].map(({ mean_ms: mean }) => mean ?? 0);
  const most = Math.max(...spent);
  const failures = ["4xx", "5xx"].filter((name) => requests[name] > 0);
  return html`<section class="panel route">
    <div class="panel-head">
      <h2><span class="methods">${methods.join(" ")}</span><span class="path">${path}</span></h2>
      <p class="route-counts">
        ${
          all === 0
            ? html`<span class="quiet">no requests yet</span>`
            : html`<span><b>${format.count(all)}</b> ${all === 1 ? "request" : "requests"}</span>`
        }
        ${failures.map(
          (name) =>
            html`<${Badge} meaning=${name === "5xx" ? "bad" : "warn"}>
              ${format.count(requests[name])} × ${name}
            <//>`,
        )}
        ${!path.startsWith("(") && html`<small class="quiet">line ${at.split(":")[0]}</small>`}
      </p>
    </div>
    <ol class="flow" aria-label=${`Steps of ${path}`}>
      ${steps.map((step) => html`<${Step} step=${step} most=${most} />`)}
      <${Step} step=${surface} most=${most} isSurface />
    </ol>
  </section>`;
}

function Step({ step, most, isSurface = false }) {
  const { name, mode, conditional, mean_ms: mean, p95_ms: p95, refusals } = step;
  const { errors, timeouts, skips } = step;
  const refused = Object.entries(refusals);
  const count = refused.reduce((sum, [, n]) => sum + n, 0);
  return html`<li
    class=${`step${isSurface ? " surface" : ""}`}
    style=${{ "--fill": most > 0 ? (mean ?? 0) / most : 0 }}
    title=${p95 === undefined ? undefined : `95% within ${format.duration(p95)}`}
  >
    <span class="step-name">${name}</span>
    <span class="step-time number">${format.duration(mean)}</span>
    ${mode === "shadow" && html`<${Badge} meaning="quiet">shadow<//>`}
    ${conditional && html`<${Badge} meaning="quiet">when<//>`}
    ${
      count > 0 &&
      html`<span
        class="step-refused"
        title=${refused.map(([code, n]) => `${code} ${n}`).join("\n")}
      >
        ${format.count(count)} refused
      </span>`
    }
    ${errors > 0 && html`<${Badge} meaning="bad">${format.count(errors)} failed<//>`}
    ${timeouts > 0 && html`<${Badge} meaning="bad">${format.count(timeouts)} late<//>`}
    ${skips > 0 && html`<${Badge} meaning="warn">${format.count(skips)} skipped<//>`}
  </li>`;
}
