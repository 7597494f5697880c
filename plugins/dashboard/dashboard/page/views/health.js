import {
  Badge,
  Check,
  Empty,
  ErrorLine,
  Fact,
  Facts,
  Loading,
  Panel,
  RefusedFile,
} from "../parts/basics.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { History } from "./history.js";
import { Table } from "../parts/table.js";

const everyMs = 3_000;

export function HealthView() {
  const { data, error } = usePolled("health", everyMs);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    ${data === undefined ? html`<${Loading} />` : html`<${Backends} health=${data} />`}
  </div>`;
}

function Backends({ health }) {
  const { ledgers, node_calls: calls, heads, upstreams, networks, gateways, complete } = health;
  const none = ledgers.length + upstreams.length + networks.length === 0;
  const { reload } = health;
  const isRefused =
    reload.faults.length > 0 || (gateways ?? []).some((each) => each.reload_refused);
  return html`<${RefusedFile} isRefused=${isRefused} />
    <${Overview} health=${health} />
    <${History} />
    ${gateways !== undefined && html`<${Gateways} gateways=${gateways} complete=${complete} />`}
    ${ledgers.map((each) => html`<${Ledger} key=${`ledger ${each.name}`} ...${each} calls=${calls} />`)}
    ${heads.map((each) => html`<${Head} key=${`head ${each.name}`} ...${each} />`)}
    ${upstreams.map((each) => html`<${Upstream} key=${`upstream ${each.name}`} ...${each} />`)}
    ${networks.map((each) => html`<${Network} key=${`network ${each.name}`} ...${each} />`)}
    ${
      none &&
      html`<${Panel} title="Backends">
        <${Empty} title="No backend is in use">
          Upstreams and networks that a route uses appear here.
        <//>
      <//>`
    }`;
}

function Overview({ health: { ready, checks, reload, process } }) {
  const wrong = Object.entries(checks).filter(([, found]) => found !== "ok");
  const word = html`<${Check} isGood=${ready} good="ready" bad="not ready" />`;
  return html`<${Panel} title="Gateway" aside=${word}>
    <${Facts}>
      <${Fact} name="Running for">${format.span(process.uptime_seconds)}<//>
      <${Fact} name="Memory">${format.bytes(process.memory_bytes)}<//>
      <${Fact} name="Pipeline">generation ${format.count(reload.generation)}<//>
      <${Fact} name="Checks">
        ${wrong.length === 0 ? `${Object.keys(checks).length} pass` : `${wrong.length} fail`}
      <//>
    <//>
    ${
      wrong.length > 0 &&
      html`<ul class="wrong">
        ${wrong.map(([name, found]) => html`<li><${Badge} meaning="bad">${found}<//>${name}</li>`)}
      </ul>`
    }
  <//>`;
}

const gatewayColumns = [
  { title: "Gateway" },
  { title: "State" },
  { title: "PostgreSQL" },
  { title: "Redis" },
  { title: "Credit in reserve", number: true },
  { title: "Running for", number: true },
  { title: "Memory", number: true },
  { title: "Version" },
];

function Gateways({ gateways, complete }) {
  const rows = gateways.map((gateway) => ({
    key: gateway.name,
    cells: [
      gateway.own ? `${gateway.name} (this one)` : gateway.name,
      html`<${Badge} meaning=${gateway.state === "ready" ? "ok" : "bad"}>${gateway.state}<//>
        <span class="quiet">${gatewayNote(gateway)}</span>`,
      storeState(gateway.postgres),
      storeState(gateway.redis),
      format.known(gateway.slack_cu_milli, format.cuAligned),
      format.known(gateway.uptime_seconds, format.span),
      format.known(gateway.memory_bytes, format.bytes),
      gateway.version,
    ],
  }));
  const title = "Gateways on this database";
  const aside = gatewaysAside(gateways, complete);
  return html`<${Panel} title=${title} aside=${aside}>
    <${Table} caption=${title} columns=${gatewayColumns} rows=${rows} />
  <//>`;
}

function gatewaysAside(gateways, complete) {
  if (!complete) return html`<${Badge} meaning="bad">other gateways are unknown<//>`;
  const differs = gateways.some(({ other_settings: others = 0 }) => others > 0);
  return differs && html`<${Badge} meaning="warn">settings differ<//>`;
}

function gatewayNote({
  wrong = [],
  state: found,
  heard_seconds_ago: heartbeat,
  other_settings: others = 0,
}) {
  if (found === "no answer") return `last heartbeat ${format.span(heartbeat)} ago`;
  if (others === 0) return wrong.join("; ");
  return [...wrong, `settings differ from ${format.counted(others, "other gateway")}`].join("; ");
}

function storeState(isUp) {
  if (isUp === undefined) return format.none;
  return html`<${Check} isGood=${isUp} good="answers" bad="no answer" />`;
}

const nodeColumns = [
  { title: "Node" },
  { title: "State" },
  { title: "Best block", number: true },
  { title: "Finalized", number: true },
  { title: "In flight", number: true },
];

function Ledger({ name, ready, nodes, calls }) {
  const callsOf = (node) => calls.find((each) => each.upstream === name && each.node === node.name);
  const rows = nodes.map((node) => ({
    key: node.name,
    cells: [
      node.name,
      state(node),
      format.known(node.best, format.count),
      format.known(node.finalized, format.count),
      format.known(callsOf(node)?.in_flight, format.count),
    ],
  }));
  return html`<${Panel} title=${`Node pool ${name}`} aside=${usable(ready)}>
    <${Table} caption=${`Nodes of ${name}`} columns=${nodeColumns} rows=${rows} />
  <//>`;
}

const headColumns = [
  { title: "Node" },
  { title: "Finalized head" },
  { title: "Block", number: true },
  { title: "Hash" },
];
const headMeanings = { proved: "ok", differs: "bad" };

function Head({ name, number, proved_at: provedAt, ended, heads }) {
  const rows = heads.map((head) => ({
    key: head.node,
    cells: [
      head.node,
      html`<${Badge} meaning=${headMeanings[head.state] ?? "warn"}>${head.state}<//>
        <span class="quiet">${head.reason}</span>`,
      format.known(head.number, format.count),
      head.hash ?? format.none,
    ],
  }));
  const aside = html`<${Badge} meaning=${ended === undefined ? "ok" : "bad"}>
    ${ended ?? `block ${format.count(number)} proved ${format.instant(provedAt)}`}
  <//>`;
  return html`<${Panel} title=${`Finalized head of ${name}`} aside=${aside}>
    <${Table} caption=${`Finalized heads of ${name}`} columns=${headColumns} rows=${rows} />
  <//>`;
}

const urlColumns = [{ title: "Address" }, { title: "State" }];

function Upstream({ name, ready, urls }) {
  const rows = urls.map((url) => ({ key: url.name, cells: [url.name, state(url)] }));
  return html`<${Panel} title=${`Upstream ${name}`} aside=${usable(ready)}>
    <${Table} caption=${`Addresses of ${name}`} columns=${urlColumns} rows=${rows} />
  <//>`;
}

const workerColumns = [
  { title: "Worker" },
  { title: "Model" },
  { title: "State" },
  { title: "In flight", number: true },
];

function Network({ name, ready, workers, models }) {
  const rows = workers.map((worker) => ({
    key: `${worker.name} ${worker.model}`,
    cells: [worker.name, worker.model, state(worker), format.count(worker.in_flight)],
  }));
  const aside = html`<span class="aside">${format.counted(models, "model")}${usable(ready)}</span>`;
  return html`<${Panel} title=${`Network ${name}`} aside=${aside}>
    ${
      rows.length === 0
        ? html`<${Empty} title="No workers">
            The network lists no workers, or its status has not been read yet.
          <//>`
        : html`<${Table} caption=${`Workers of ${name}`} columns=${workerColumns} rows=${rows} />`
    }
  <//>`;
}

function usable(ready) {
  return html`<${Check} isGood=${ready} good="usable" bad="not usable" />`;
}

const good = ["usable", "active", "busy"];
const gone = ["unreachable", "bad_answer", "other_chain", "left out", "not admitted"];

function state({ state: word, reason, since, next_try: next }) {
  const meaning = good.includes(word) ? "ok" : gone.includes(word) ? "bad" : "warn";
  const tried = next === undefined ? "" : `, next try ${format.instant(next)}`;
  const absence = reason && `${reason}, since ${format.instant(since)}${tried}`;
  return html`<${Badge} meaning=${meaning}>${word.replaceAll("_", " ")}<//>
    <span class="quiet"> ${absence}</span>`;
}
