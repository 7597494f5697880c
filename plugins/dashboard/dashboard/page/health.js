/** The view Health: the state of the backends. */
import { poll } from "./api.js";
import { badge, empty, h, panel, replace, row, table } from "./dom.js";
import * as format from "./format.js";
import { errorLine } from "./error-line.js";

const everyMs = 3_000;

export function healthView() {
  const error = errorLine();
  const content = h("div", { class: "view" }, h("p", { class: "loading" }, "Loading…"));
  const took = (health) => {
    const { ledgers, upstreams, networks } = health;
    const none = ledgers.length + upstreams.length + networks.length === 0;
    replace(
      content,
      overview(health),
      gatewaysPanel(health),
      ...ledgers.map(ledgerPanel),
      ...upstreams.map(upstreamPanel),
      ...networks.map(networkPanel),
      none &&
        panel(
          "Backends",
          {},
          empty("No backend is in use", "Upstreams and networks that a route uses appear here."),
        ),
    );
  };
  const polling = poll(everyMs, () => "health", took, error.show);
  return { element: h("div", { class: "view" }, error.element, content), stop: polling.stop };
}

function overview({ ready, checks, reload, process }) {
  const wrong = Object.entries(checks).filter(([, found]) => found !== "ok");
  return panel(
    "Gateway",
    { aside: badge(ready ? "ok" : "bad", ready ? "ready" : "not ready") },
    h(
      "dl",
      { class: "facts" },
      fact("Running for", format.span(process.uptime_seconds)),
      fact("Memory", format.bytes(process.memory_bytes)),
      fact("Pipeline", `generation ${format.count(reload.generation)}`),
      fact(
        "Checks",
        wrong.length === 0 ? `${Object.keys(checks).length} pass` : `${wrong.length} fail`,
      ),
    ),
    wrong.length > 0 &&
      h(
        "ul",
        { class: "wrong" },
        ...wrong.map(([name, found]) => h("li", {}, badge("bad", found), name)),
      ),
  );
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
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

/** Returns the panel of the gateways on the same database. Undefined without a database. */
function gatewaysPanel({ gateways, complete }) {
  if (gateways === undefined) return undefined;
  const rows = gateways.map((gateway) =>
    row(gatewayColumns, [
      gateway.own ? `${gateway.name} (this one)` : gateway.name,
      [
        badge(gateway.state === "ready" ? "ok" : "bad", gateway.state),
        h("span", { class: "quiet" }, gatewayNote(gateway)),
      ],
      storeState(gateway.postgres),
      storeState(gateway.redis),
      gateway.slack_cu_milli === undefined ? format.none : format.cuAligned(gateway.slack_cu_milli),
      gateway.uptime_seconds === undefined ? format.none : format.span(gateway.uptime_seconds),
      gateway.memory_bytes === undefined ? format.none : format.bytes(gateway.memory_bytes),
      gateway.version,
    ]),
  );
  return panel(
    "Gateways on this database",
    { aside: complete ? undefined : badge("bad", "other gateways are unknown") },
    table("Gateways on this database", gatewayColumns, rows).element,
  );
}

function gatewayNote({ wrong = [], state: found, heard_seconds_ago: heard }) {
  return found === "no answer" ? `heard ${format.span(heard)} ago` : wrong.join("; ");
}

function storeState(isUp) {
  if (isUp === undefined) return format.none;
  return badge(isUp ? "ok" : "bad", isUp ? "answers" : "no answer");
}

const nodeColumns = [
  { title: "Node" },
  { title: "State" },
  { title: "Best block", number: true },
  { title: "Finalized", number: true },
  { title: "In flight", number: true },
];

function ledgerPanel({ name, ready, nodes }) {
  const rows = nodes.map((node) =>
    row(nodeColumns, [
      node.name,
      state(node.state),
      node.best === undefined ? format.none : format.count(node.best),
      node.finalized === undefined ? format.none : format.count(node.finalized),
      format.count(node.in_flight),
    ]),
  );
  return panel(
    `Node pool ${name}`,
    { aside: usable(ready) },
    table(`Nodes of ${name}`, nodeColumns, rows).element,
  );
}

const urlColumns = [{ title: "Address" }, { title: "State" }];

function upstreamPanel({ name, ready, urls }) {
  const rows = urls.map((url) => row(urlColumns, [url.name, state(url.state)]));
  return panel(
    `Upstream ${name}`,
    { aside: usable(ready) },
    table(`Addresses of ${name}`, urlColumns, rows).element,
  );
}

const workerColumns = [
  { title: "Worker" },
  { title: "Model" },
  { title: "State" },
  { title: "In flight", number: true },
];

function networkPanel({ name, ready, workers, models }) {
  const rows = workers.map((worker) =>
    row(workerColumns, [
      worker.name,
      worker.model,
      state(worker.state),
      format.count(worker.in_flight),
    ]),
  );
  const content =
    rows.length === 0
      ? empty("No workers", "The network lists no workers, or its status has not been read yet.")
      : table(`Workers of ${name}`, workerColumns, rows).element;
  return panel(
    `Network ${name}`,
    {
      aside: h("span", { class: "aside" }, format.counted(models, "model"), usable(ready)),
    },
    content,
  );
}

function usable(ready) {
  return badge(ready ? "ok" : "bad", ready ? "usable" : "not usable");
}

const good = ["usable", "active", "busy"];
const gone = ["unreachable", "bad_answer", "other_chain", "left out", "not admitted"];

function state(word) {
  const meaning = good.includes(word) ? "ok" : gone.includes(word) ? "bad" : "warn";
  return badge(meaning, word.replaceAll("_", " "));
}
