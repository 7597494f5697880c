/** Renders the tables of docs/ that repeat facts of the code. tables.test.ts compares them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { STATUS_CODES } from "node:http";
import { join } from "node:path";
import {
  excessReasons,
  gatewayErrors,
  sluiceErrors,
  statusReasons,
} from "../../src/base/errors.ts";
import type { JsonSchema } from "../../src/plugin.ts";
import { sections } from "../../plugins/alerts/alerts/index.ts";
import { oidcSchema } from "../../plugins/dashboard/dashboard/index.ts";
import { knownMethods } from "../../plugins/ledger/ledger/methods.ts";
import { createSeal } from "../../src/store/seal.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { upgrade } from "../plugins/billing/shipping/fixture.ts";
import { escape, optionTable } from "./option-table.ts";
import { agents } from "../agents/programs.ts";
import { clients } from "../clients/clients.ts";
import { embedders } from "../clients/embedders.ts";
import { createDatabase } from "../store/servers.ts";

export const root = join(import.meta.dirname, "../..");

/** Cells as Markdown; the first row is the head. */
type Table = readonly (readonly string[])[];

/** The tables by the name in their marker, `<!-- table: name -->`, with the page that contains each. */
export async function renderTables(): Promise<Map<string, { page: string; table: Table }>> {
  const { metrics, tools } = await askGateway();
  return new Map([
    ["gateway", { page: "errors.md", table: gatewayTable() }],
    ["reasons", { page: "errors.md", table: reasonTable() }],
    ["sluice", { page: "errors.md", table: sluiceTable() }],
    ["whitelist", { page: "node-proxy.md", table: methodTable(false) }],
    ["optional", { page: "node-proxy.md", table: methodTable(true) }],
    ["metrics", { page: "operations.md", table: metrics }],
    ["alerts", { page: "alerts.md", table: optionRows(sections.alerts) }],
    ["oidc", { page: "dashboard.md", table: optionRows(oidcSchema) }],
    ["tools", { page: "tools.md", table: tools }],
    ["clients", { page: "recipes/agents.md", table: clientTable() }],
  ]);
}

export function findTable(page: string, name: string): { at: number; lines: string[] } | undefined {
  const lines = page.split("\n");
  const marker = lines.indexOf(`<!-- table: ${name} -->`);
  if (marker === -1) return undefined;
  const rest = lines.slice(marker + 2);
  const end = rest.findIndex((line) => !line.startsWith("|"));
  return { at: marker + 2, lines: end === -1 ? rest : rest.slice(0, end) };
}

/** The clients with the APIs over which they are tested. Those of the large agents run in .ci/try-agents only. */
function clientTable(): Table {
  const apis = ["chat", "responses", "messages", "embeddings"];
  const judged = [
    ...agents.flatMap(({ name, apis: spoken }) => spoken.map((api) => [name, api] as const)),
    ...clients.map(({ name, api }) => [`\`${name}\``, api] as const),
    ...embedders.map(({ name }) => [`\`${name}\``, "embeddings"] as const),
  ];
  const repeats = new Map(agents.map((agent) => [agent.name, agent.repeats.join(", ")]));
  const rows = [...Map.groupBy(judged, ([name]) => name)].map(([name, found]) => [
    name,
    ...apis.map((api) => (found.some(([, used]) => used === api) ? "yes" : "")),
    repeats.get(name) ?? "",
  ]);
  return [["client", ...apis, "asks again after a broken stream"], ...rows];
}

function gatewayTable(): Table {
  const rows = Object.entries(gatewayErrors)
    .toSorted(([, a], [, b]) => a.status - b.status)
    .map(([code, entry]) => [
      `\`${code}\``,
      String(entry.status),
      entry.message,
      String(entry.retryAfter ?? ""),
    ]);
  return [["code", "HTTP", "default message", "`Retry-After`"], ...rows];
}

function reasonTable(): Table {
  const rows = [
    ...Object.entries(statusReasons),
    ...Object.values(excessReasons).map((reason) => ["400", reason] as const),
  ].map(([status, reason]) => [status, STATUS_CODES[status] ?? "", `\`${reason}\``]);
  return [["HTTP", "status", "`details.reason`"], ...rows];
}

function sluiceTable(): Table {
  const rows = Object.entries(sluiceErrors).map(([code, remedy]) => [
    `\`${code}\``,
    escape(remedy),
  ]);
  return [["code", "remedy"], ...rows];
}

function methodTable(optional: boolean): Table {
  const rows = [...knownMethods]
    .filter(([, method]) => (method.optional === true) === optional)
    .map(([name, { params, cuMilli, lifetime }]) => [
      `\`${name}\``,
      params.length === 0 ? "" : `\`${params.join(", ")}\``,
      String(cuMilli),
      `\`${lifetime}\``,
    ]);
  return [["method", "params", "milli-CU", "lifetime"], ...rows];
}

/** Asks gateways with the shipped pipeline.yaml, and with every part that has metrics of its own. */
async function askGateway(): Promise<{ metrics: Table; tools: Table }> {
  const shipped = readFileSync(join(root, "pipeline.yaml"), "utf8");
  const forwarded = "  - { path: /forwarded/*, to: { forward: { upstream: ledger } } }\n";
  const alerts = `alerts: { url: "http://127.0.0.1:9", secret: whsec_${"a".repeat(32)} }\n`;
  const id = `0x${"0".repeat(64)}`;
  const checkpoint = { number: 0, hash: id, setId: 0, authorities: [[id, 1]] };
  const shared = await askOneGateway(
    shipped.replace(/(?<=^ {2}ledger:.*\n)/m, `    checkpoint: ${JSON.stringify(checkpoint)}\n`) +
      forwarded +
      alerts,
  );
  const exporting = await askOneGateway(
    shipped.replace(
      "  durability: settled",
      '  export: { url: "http://127.0.0.1:9" }\n  durability: settled',
    ),
  );
  const alone = await askOneGateway(shipped, {
    DATABASE_URL: "",
    REDIS_URL: "",
    // A rate that is polled.
    TOKEN_USD_RATE: "http://127.0.0.1:1#/usd",
  });
  const document: unknown = JSON.parse(shared.document);
  const all = shared.metrics + exporting.metrics + alone.metrics;
  return { metrics: metricsTable(all), tools: toolsTable(document) };
}

async function askOneGateway(
  pipeline: string,
  more: Readonly<Record<string, string>> = {},
): Promise<{ readonly metrics: string; readonly document: string }> {
  await using stack = new AsyncDisposableStack();
  const database = await createDatabase({
    after: (close) => stack.defer(async () => void (await close())),
  });
  const secret = "a secret of the tables";
  await upgrade(database, createSeal(secret));
  await using gateway = await startTestGateway({
    pipeline,
    env: {
      LOG_LEVEL: "silent",
      DATABASE_URL: database,
      // The metrics of Redis are declared while it is away, too.
      REDIS_URL: "redis://127.0.0.1:1",
      GATEWAY_SECRET: secret,
      CONFIDENTIAL_CLASSIC_URL: "http://127.0.0.1:1",
      ...more,
    },
  });
  return {
    metrics: await (await fetch(`${gateway.adminUrl}/metrics`)).text(),
    document: await (await fetch(`${gateway.url}/.well-known/mcp`)).text(),
  };
}

/** Returns the rows of `optionTable`, which has an empty line and a line below its head. */
function optionRows(schema: JsonSchema): Table {
  const [, head = "", , ...rows] = optionTable(schema);
  return [head, ...rows].map((line) => line.slice(2, -2).split(" | "));
}

/** The name of a counter ends in `_total`, and the row of a histogram says that it is one. All others are gauges. */
function metricsTable(exposition: string): Table {
  const found = new Map<string, string[]>();
  for (const [, name = "", help = "", type = ""] of exposition.matchAll(
    /^# HELP (sluice_\w+) (.*)\n# TYPE \1 (\w+)$/gm,
  )) {
    assert.equal(name.endsWith("_total"), type === "counter", `${name} is a ${type}`);
    assert.ok(["counter", "gauge", "histogram"].includes(type), `${name} is a ${type}`);
    found.set(name, [`\`${name}\``, escape(help) + (type === "histogram" ? " A histogram." : "")]);
  }
  const rows = [...found.values()].toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  return [["metric", "meaning"], ...rows];
}

interface DiscoveryDocument {
  readonly tools: readonly {
    readonly name: string;
    readonly description: string;
    readonly estimatedCUMilli: number;
    readonly estimatedCUVaries: boolean;
  }[];
}

function toolsTable(document: unknown): Table {
  // gateway.md, "Discovery document".
  const { tools } = document as DiscoveryDocument;
  const rows = tools.map(({ name, description, estimatedCUMilli, estimatedCUVaries }) => [
    `\`${name}\``,
    `${estimatedCUVaries ? "from " : ""}${estimatedCUMilli}`,
    escape(description),
  ]);
  return [["tool", "milli-CU", "does"], ...rows];
}
