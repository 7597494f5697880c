/**
 * The shape of pipeline.yaml as one JSON Schema (draft 2020-12): what `read.ts` validates with, where the defaults
 * stand, and what pipeline.schema.json is generated from.
 */
import { defaultTimeoutMs } from "./config.ts";
import type { JsonSchema } from "../plugin.ts";
import { collateralSchema, networkSchema, rateSchema, upstreamSchema } from "./schema-backends.ts";

type Properties = Readonly<Record<string, JsonSchema>>;

/** An object that takes no other keys. */
function closed(description: string, properties: Properties, more: JsonSchema = {}): JsonSchema {
  return { type: "object", description, properties, additionalProperties: false, ...more };
}

/** Any names, one schema for all of them. */
function named(description: string, value: JsonSchema, more: JsonSchema = {}): JsonSchema {
  return { type: "object", description, additionalProperties: value, ...more };
}

const port = { type: "integer", minimum: 0, maximum: 65_535 };

function milliseconds(fallback: number, description: string): JsonSchema {
  return { type: "integer", minimum: 1, maximum: 86_400_000, default: fallback, description };
}

const server = closed(
  "The listener that clients reach.",
  {
    host: { type: "string", format: "listen-host", default: "127.0.0.1", description: "Address." },
    port: { ...port, default: 8080, description: "Port; 0 takes any free one." },
    trustProxy: {
      type: "array",
      items: { type: "string", format: "address-block" },
      default: [],
      description: "Proxies whose X-Forwarded-For counts: addresses or CIDR blocks.",
    },
    drainSeconds: {
      type: "number",
      minimum: 0,
      maximum: 86_400,
      default: 30,
      description: "How long running requests may take to finish after SIGTERM.",
    },
    drainDelaySeconds: {
      type: "number",
      minimum: 0,
      maximum: 3_600,
      default: 1,
      description:
        "How long new connections are still taken after SIGTERM, while /readyz says 503.",
    },
    headersMs: milliseconds(10_000, "The whole request head must arrive within this."),
    bodyIdleMs: milliseconds(
      30_000,
      "Maximum pause of a request body, and of a client that reads its answer. A body must also gain 64 KiB in 10 seconds.",
    ),
    unfinishedBodyBytes: {
      type: "integer",
      minimum: 1024 * 1024,
      maximum: 1024 ** 4,
      default: 512 * 1024 * 1024,
      description:
        "Maximum number of bytes of request bodies that are still arriving, and of WebSocket messages. Beyond it the newest ones are refused; one caller may hold half of it.",
    },
    connections: {
      type: "integer",
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description:
        "Maximum number of open connections, WebSockets included. Further ones are closed at once.",
    },
    keepAliveMs: milliseconds(65_000, "An idle connection is kept this long."),
  },
  { default: {} },
);

const admin = closed(
  "The second listener: metrics, health, the pipeline as loaded, the dashboard. Keep it private.",
  {
    host: { type: "string", format: "listen-host", default: "127.0.0.1", description: "Address." },
    port: { ...port, default: 9090, description: "Port; 0 takes any free one." },
    hosts: {
      type: "array",
      items: { type: "string", pattern: "^[A-Za-z0-9._-]+$" },
      default: [],
      description:
        "Host names that the dashboard, /metrics, /pipelines and /explain accept, beside IP addresses and localhost. List the names that scrapers use.",
    },
  },
  { default: {} },
);

const store = closed(
  "Where accounts and charges are kept.",
  {
    data: {
      type: "string",
      minLength: 1,
      default: "./data",
      description: "Folder of the embedded store, relative to this file.",
    },
    redis: {
      type: "string",
      format: "redis-url",
      description: "Hot counters that several replicas share. Not in this release.",
    },
    postgres: {
      type: "string",
      format: "postgres-url",
      description: "Accounts and usage that several replicas share. Not in this release.",
    },
  },
  { default: {} },
);

const usageExport = closed(
  "Delivers every settled charge to whoever bills, as CloudEvents over HTTP.",
  {
    url: {
      type: "string",
      format: "http-url",
      description: "Where batches are posted to; absent: nowhere.",
    },
    headers: named(
      "Header fields of each request, such as authorization.",
      { type: "string", pattern: "^[\\t\\x20-\\x7e]*$" },
      { default: {}, propertyNames: { type: "string", format: "added-header" } },
    ),
    every: {
      type: "string",
      format: "short-duration",
      default: "5s",
      description: "How often the journal is looked at while it has nothing new.",
    },
    batch: {
      type: "integer",
      minimum: 1,
      maximum: 10_000,
      default: 100,
      description: "The most events of one request.",
    },
    source: {
      type: "string",
      minLength: 1,
      default: "sluice",
      description: "The events' source (a URI reference): with their ids it tells what came twice.",
    },
    type: {
      type: "string",
      minLength: 1,
      default: "sluice.charge",
      description: "The events' type.",
    },
    subject: {
      enum: ["workspace", "key"],
      default: "workspace",
      description: "Whom an event is counted for: its subject.",
    },
  },
);

const metering = closed(
  "How charges reach the disk.",
  {
    durability: {
      enum: ["settled", "async"],
      default: "settled",
      description: "settled: on disk before the last byte of the answer leaves; async: soon after.",
    },
    export: usageExport,
  },
  { default: {} },
);

function plan(name: string, rps: number, includedCu: number, overage: string): JsonSchema {
  return closed(
    `Terms of the ${name} plan.`,
    {
      rps: {
        type: "number",
        exclusiveMinimum: 0,
        maximum: 1_000_000,
        default: rps,
        description: "Requests per second; the burst is twice that.",
      },
      includedCu: {
        type: "integer",
        minimum: 0,
        maximum: 1_000_000_000_000,
        default: includedCu,
        description: "Credit units included in a calendar month (UTC).",
      },
      overageUsdPerCu: {
        type: "string",
        format: "overage-rate",
        default: overage,
        description:
          'USD per CU beyond the included and purchased amount; "none": refused instead.',
      },
    },
    { default: {} },
  );
}

/** gateway.md, "Limits"; the overage of the paid plans: decisions.md section 3. */
const plans = closed(
  "Terms of the plans.",
  {
    free: plan("free", 2, 10_000_000, "none"),
    developer: plan("developer", 10, 29_000_000, "0.001"),
    startup: plan("startup", 50, 99_000_000, "0.001"),
    enterprise: plan("enterprise", 200, 499_000_000, "0.001"),
  },
  { default: {} },
);

const log = closed(
  "The log on standard output.",
  {
    level: {
      enum: ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
      default: "info",
      description: "The least serious level that is written.",
    },
  },
  { default: {} },
);

/** What stands in lists and at `to:`. Loose when reading (expand.ts judges entries), by plugin when published. */
export interface EntrySchemas {
  readonly step: JsonSchema;
  readonly surface: JsonSchema;
  readonly tools: JsonSchema;
  readonly fastify: JsonSchema;
}

function route(entries: EntrySchemas): JsonSchema {
  return closed(
    "One path and what answers it.",
    {
      path: {
        type: "string",
        description: "Literal segments, {name} segments, and * as the last one for the rest.",
      },
      methods: {
        type: "array",
        items: { type: "string" },
        minItems: 1,
        description: 'HTTP methods, upper case; GET brings HEAD; "*" or absent: any.',
      },
      websocket: {
        type: "boolean",
        default: false,
        description: "The route takes WebSocket upgrades.",
      },
      run: {
        type: "array",
        items: entries.step,
        default: [],
        description: "Steps, in the order in which a request passes them.",
      },
      to: { ...entries.surface, description: "The surface that answers." },
    },
    { required: ["path", "to"] },
  );
}

/** The whole file. */
export function fileSchema(entries: EntrySchemas): JsonSchema {
  const steps = { type: "array", items: entries.step };
  return closed(
    "What runs where, in which order.",
    {
      version: { const: 1, description: "Version of this file's format." },
      secret: {
        type: "string",
        minLength: 16,
        description:
          "Seals sessions and confirmation tokens, the same on every replica; absent: made and kept in the data folder.",
      },
      environment: {
        enum: ["dev", "stage", "prod"],
        default: "dev",
        description: "The deployment: only keys of the same environment are valid.",
      },
      server,
      admin,
      store,
      metering,
      plans,
      log,
      upstreams: named("Backends, by name.", upstreamSchema, { default: {} }),
      networks: named("Inference networks, by name.", networkSchema, { default: {} }),
      rate: rateSchema,
      collateral: collateralSchema,
      plugins: named(
        "Third-party plugins: name to package or ./path.",
        { type: "string", minLength: 1 },
        { default: {} },
      ),
      tools: {
        type: "array",
        items: entries.tools,
        default: [],
        description: "What adds tools to the catalogue of /mcp and /rpc.",
      },
      fastify: {
        type: "array",
        items: entries.fastify,
        default: [],
        description: "Fastify plugins that wrap the whole listener.",
      },
      lists: named("Named lists of steps, for `use`.", steps, { default: {} }),
      unmatched: {
        ...steps,
        default: [],
        description: "Steps that run before the 404 or 405 of a request that no route takes.",
      },
      routes: { type: "array", items: route(entries), minItems: 1, description: "All routes." },
    },
    { required: ["version", "routes"] },
  );
}

/** Sections that belong to the gateway itself, so that a service cannot have one of these names. */
export const gatewaySections: ReadonlySet<string> = new Set(
  Object.keys(fileSchema({ step: {}, surface: {}, tools: {}, fastify: {} })["properties"] ?? {}),
);

/** How an entry of a list may be qualified, beside its plugin. */
export const modeSchema: JsonSchema = {
  enum: ["enforce", "shadow", "off"],
  description: "shadow: runs and counts what it would refuse, refuses nothing; off: does not run.",
};

export const timeoutSchema: JsonSchema = {
  type: "integer",
  minimum: 0,
  maximum: 3_600_000,
  description: `Milliseconds that one asynchronous hook of the step may take (${defaultTimeoutMs}); after that the request is answered with 500. 0: no limit.`,
};

export const whenSchema: JsonSchema = closed(
  "Runs only for requests that meet all of these.",
  {
    path: { type: "string", format: "condition-path", description: "A path, or a prefix and *." },
    methods: {
      type: "array",
      items: { type: "string" },
      minItems: 1,
      description: "HTTP methods, upper case.",
    },
    header: named(
      "Header name to its exact value, or * for present.",
      { type: "string" },
      { minProperties: 1 },
    ),
  },
  { minProperties: 1 },
);
