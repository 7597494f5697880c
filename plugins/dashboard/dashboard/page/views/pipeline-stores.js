import { Badge, Check, ErrorLine, Loading, Panel } from "../parts/basics.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { Table } from "../parts/table.js";

const everyMs = 5_000;

export function PipelineStores() {
  const health = usePolled("health", everyMs);
  const stores = usePolled("stores", everyMs);
  return html`<${ErrorLine} error=${health.error ?? stores.error} />
    ${health.data === undefined ? html`<${Loading} />` : html`<${Gateways} health=${health.data} />`}
    ${stores.data === undefined ? html`<${Loading} />` : html`<${Stores} stores=${stores.data.stores} />`}`;
}

const gatewayColumns = [
  { title: "Gateway" },
  { title: "State" },
  { title: "Last heartbeat", number: true },
  { title: "Generation", number: true },
  { title: "pipeline.yaml" },
  { title: "Shared settings" },
  { title: "Leases", number: true },
  { title: "Held credit", number: true },
  { title: "Reserved", number: true },
];

function Gateways({ health: { gateways, complete } }) {
  const title = "Gateways and leases";
  if (gateways === undefined) {
    return html`<${Panel} title=${title}>
      <p class="hint">
        This gateway works alone. It has no database in PostgreSQL, so it shares no credit and holds
        no leases.
      </p>
    <//>`;
  }
  const rows = gateways.map((gateway) => ({
    key: gateway.name,
    cells: [
      gateway.own ? `${gateway.name} (this one)` : gateway.name,
      html`<${Badge} meaning=${gateway.state === "ready" ? "ok" : "bad"}>${gateway.state}<//>`,
      gateway.own ? "now" : `${format.span(gateway.heard_seconds_ago)} ago`,
      format.known(gateway.generation, format.count),
      fileState(gateway),
      settingsState(gateway),
      format.known(gateway.leased_scopes, format.count),
      format.known(heldMilliCu(gateway), format.cuAligned),
      format.known(gateway.reserved_cu_milli, format.cuAligned),
    ],
  }));
  const aside = !complete && html`<${Badge} meaning="bad">other gateways are unknown<//>`;
  return html`<${Panel} title=${title} aside=${aside}>
    <${Table} caption=${title} columns=${gatewayColumns} rows=${rows} />
    <p class="hint">
      A lease is the credit of a workspace or key that a gateway has taken from the database. Its
      held credit includes the part that running requests have reserved.
    </p>
  <//>`;
}

function heldMilliCu({ slack_cu_milli: slack, reserved_cu_milli: reserved }) {
  return slack === undefined ? undefined : slack + (reserved ?? 0);
}

function fileState({ own, same_file: isSame, reload_refused: isRefused, generation }) {
  if (generation === undefined) return format.none;
  if (isRefused) return html`<${Badge} meaning="bad">reload refused<//>`;
  if (own) return html`<${Badge} meaning="ok">loaded<//>`;
  return html`<${Badge} meaning=${isSame ? "ok" : "warn"}
    >${isSame ? "same text" : "other text"}<//
  >`;
}

function settingsState({ other_settings: others }) {
  if (others === undefined) return format.none;
  if (others === 0) return html`<${Badge} meaning="ok">equal<//>`;
  return html`<${Badge} meaning="warn">differ from ${format.counted(others, "gateway")}<//>`;
}

const storeColumns = [
  { title: "Store" },
  { title: "Kind" },
  { title: "State" },
  { title: "Schema version", number: true },
  { title: "Size", number: true },
];

function Stores({ stores }) {
  const rows = stores.map(({ kind, name, up, problem, schema_version: version, bytes }) => ({
    key: `${kind} ${name}`,
    cells: [
      html`<span class="path">${name}</span>`,
      kind,
      html`<${Check} isGood=${up} good="answers" bad="no answer" />
        ${problem !== undefined && problem !== "no answer" && html`<code>${problem}</code>`}`,
      format.known(version, format.count),
      format.known(bytes, format.size),
    ],
  }));
  return html`<${Panel} title="Stores of this gateway">
    <${Table} caption="Stores of this gateway" columns=${storeColumns} rows=${rows} />
  <//>`;
}
