import { Badge, Empty, ErrorLine, Loading, Panel } from "../parts/basics.js";
import { Choice } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { filter } from "../parts/router.js";
import { Table } from "../parts/table.js";

const everyMs = 5_000;
const kinds = [
  ["all", "All kinds"],
  ["step", "Steps"],
  ["surface", "Surfaces"],
  ["tools", "Tools"],
  ["service", "Services"],
];
/** Hooks of the start and the stop are not part of the mean time. */
const ofStart = ["start", "initialized", "update", "stop"];

export function PluginsView() {
  const { data, error } = usePolled("plugins", everyMs);
  const kind = filter("kind", "all");
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${Choice} label="Kind" options=${kinds} chosen=${kind} name="kind" />
    </div>
    <p class="hint">
      Plugins that do not ship with Sluice come first. Calls are requests of a step or surface
      (under load, a sample), calls of tools, timers, and hooks of a service; all counts are since
      the start of the process.
    </p>
    <${Panel} title="Plugins">
      ${
        data === undefined
          ? html`<${Loading} />`
          : html`<${Plugins}
              plugins=${data.plugins.filter((plugin) => kind === "all" || plugin.kind === kind)}
            />`
      }
    <//>
  </div>`;
}

const columns = [
  { title: "Plugin" },
  { title: "Kind" },
  { title: "Version" },
  { title: "Origin" },
  { title: "Gets" },
  { title: "Calls", number: true },
  { title: "Mean time", number: true },
  { title: "Refused", number: true },
  { title: "Failed", number: true },
  { title: "Threw", number: true },
];

function Plugins({ plugins }) {
  if (plugins.length === 0) {
    return html`<${Empty} title="No such plugin">No plugin of this kind is loaded.<//>`;
  }
  const isShipped = ({ origin }) => (origin === "sluice" ? 1 : 0);
  const rows = plugins
    .toSorted((a, b) => isShipped(a) - isShipped(b))
    .map((plugin) => ({ key: plugin.name, cells: cellsOf(plugin) }));
  return html`<${Table} caption="Loaded plugins" columns=${columns} rows=${rows} kind="plugins" />`;
}

function cellsOf({
  name,
  description,
  kind,
  version,
  contract,
  origin,
  source,
  has_grants: hasGrants,
  ...more
}) {
  const { grants, hooks } = more;
  const calls = hooks.filter(({ hook }) => !ofStart.includes(hook));
  const timed = sum(calls, "timed");
  const threw = sum(hooks, "errors");
  const late = sum(hooks, "timeouts");
  return [
    html`<b>${name}</b><small class="quiet">${description}</small>`,
    kind,
    html`${version ?? format.none}
    ${contract !== undefined && html`<small class="quiet unbroken">contract ${contract}</small>`}`,
    html`<${Origin} origin=${origin} source=${source} hasGrants=${hasGrants} />`,
    html`<${Grants} grants=${grants} kind=${kind} />`,
    format.count(timed),
    html`<span title=${timesText(hooks)}>
      ${format.duration(timed === 0 ? undefined : sum(calls, "ms") / timed)}
    </span>`,
    html`<${Codes} hooks=${hooks} of="refusals" />`,
    html`<${Codes} hooks=${hooks} of="failures" meaning="bad" />`,
    html`<${Count} n=${threw} meaning="bad" title=${errorsText(hooks)} />
      ${late > 0 && html` <${Badge} meaning="bad">${format.count(late)} late<//>`}`,
  ];
}

const origins = {
  sluice: "Sluice",
  package: "package",
  link: "linked package",
  path: "file",
  code: "code",
};

function Origin({ origin, source, hasGrants }) {
  return html`${origins[origin]}
  ${source !== undefined && html`<code class="path">${source}</code>`}
  ${hasGrants === true && html`<small class="quiet unbroken">with grants</small>`}`;
}

/** Only the manifests of steps state how they use bodies. */
function Grants({ grants: { services, hosts, env, body, deployment }, kind }) {
  const lines = [
    services.length > 0 && `services: ${services.join(", ")}`,
    hosts.length > 0 && `servers: ${hosts.map((host) => (host === "*" ? "any" : host)).join(", ")}`,
    env.length > 0 && `environment: ${env.join(", ")}`,
    deployment.length > 0 && `deployment: ${deployment.join(", ")}`,
    kind === "step" && body !== "none" && `bodies: ${body}`,
  ].filter((line) => line !== false);
  if (lines.length === 0) return html`<span class="quiet">nothing</span>`;
  return lines.map((line) => html`<small>${line}</small>`);
}

/** `of`: `refusals` or `failures`. */
function Codes({ hooks, of, meaning }) {
  const counts = new Map();
  for (const hook of hooks) {
    for (const [code, n] of Object.entries(hook[of])) counts.set(code, (counts.get(code) ?? 0) + n);
  }
  const lines = [...counts].map(([code, n]) => `${code} ${n}`);
  const all = [...counts.values()].reduce((total, n) => total + n, 0);
  return html`<${Count} n=${all} meaning=${meaning} title=${lines.join("\n")} />`;
}

/** `title`: its parts. `meaning`: that of its badge if it is not 0. */
function Count({ n, meaning, title }) {
  const text = format.count(n);
  if (n === 0) return html`<span class="quiet">${text}</span>`;
  const shown = meaning === undefined ? text : html`<${Badge} meaning=${meaning}>${text}<//>`;
  return html`<span title=${title}>${shown}</span>`;
}

function timesText(hooks) {
  return hooks
    .filter(({ timed }) => timed > 0)
    .map(
      ({ hook, timed, ms }) =>
        `${hook}: ${format.count(timed)}, mean ${format.duration(ms / timed)}`,
    )
    .join("\n");
}

function errorsText(hooks) {
  return hooks
    .filter(({ errors }) => errors > 0)
    .map(({ hook, errors }) => `${hook}: ${format.count(errors)}`)
    .join("\n");
}

function sum(hooks, member) {
  return hooks.reduce((total, hook) => total + hook[member], 0);
}
