/** The shape of pipeline.yaml, with all defaults. pipeline.schema.json is generated from it. */
import { bodyAccesses, deploymentParts } from "../contract/permissions.ts";
import type { JsonSchema } from "../plugin.ts";
import { withSections, type SectionOwner } from "./sections.ts";
import { integerSchema } from "../base/shared-schemas.ts";

type Properties = Readonly<Record<string, JsonSchema>>;

function closed(description: string, properties: Properties, more: JsonSchema = {}): JsonSchema {
  return { type: "object", description, properties, additionalProperties: false, ...more };
}

function named(description: string, value: JsonSchema, more: JsonSchema = {}): JsonSchema {
  return { type: "object", description, additionalProperties: value, ...more };
}

function names(description: string): JsonSchema {
  return { type: "array", items: { type: "string", minLength: 1 }, description };
}

const thirdPartyPlugin = closed(
  "A package or a ./path, or a mapping with everything that the plugin may ask for.",
  {
    from: { type: "string", minLength: 1, description: "A package, or a ./path." },
    grants: closed("What the gateway may give to the plugin. What is missing is not granted.", {
      services: names("Names of services."),
      hosts: names("Servers as host:port. `*` means any server."),
      env: names("Environment variables."),
      body: {
        enum: bodyAccesses,
        description: "What the hooks of a step may do with bodies.",
      },
      deployment: {
        type: "array",
        items: { enum: deploymentParts },
        description: "Parts of the deployment that all plugins share.",
      },
    }),
  },
  { type: ["string", "object"], minLength: 1, required: ["from", "grants"] },
);

const port = { type: "integer", minimum: 0, maximum: 65_535 };

function milliseconds(fallback: number, description: string): JsonSchema {
  return { type: "integer", minimum: 1, maximum: 86_400_000, default: fallback, description };
}

const trustProxy: JsonSchema = {
  type: "array",
  items: { type: "string", format: "address-block" },
  default: [],
  description: "Proxies whose X-Forwarded-For is trusted: addresses or CIDR blocks.",
};

const server = closed(
  "The listener for clients.",
  {
    host: {
      type: "string",
      format: "listen-host",
      default: "127.0.0.1",
      description: "Address or host name to listen on.",
    },
    port: { ...port, default: 8080, description: "Port to listen on. 0 uses any free port." },
    tls: closed(
      "The certificate, for clients that connect with TLS. New files are used within 10 seconds.",
      {
        cert: {
          type: "string",
          minLength: 1,
          description:
            "Path of a PEM file with the certificate, followed by the intermediate certificates. A relative path starts at this file.",
        },
        key: { type: "string", minLength: 1, description: "Path of its private key in PEM." },
      },
      { required: ["cert", "key"] },
    ),
    trustProxy,
    drainSeconds: {
      type: "number",
      minimum: 0,
      maximum: 86_400,
      default: 30,
      description: "Seconds that running requests may take to finish after SIGTERM.",
    },
    drainDelaySeconds: {
      type: "number",
      minimum: 0,
      maximum: 3_600,
      default: 1,
      description:
        "Seconds after SIGTERM in which new connections are still accepted and /readyz answers 503.",
    },
    ready: {
      type: ["string", "array"],
      pattern: "^(any|all)$",
      items: { type: "string", minLength: 1 },
      default: "any",
      description:
        "The backends that must be usable for /readyz to answer 200: any (at least one), all, or a list of names of upstreams and networks.",
    },
    headersMs: milliseconds(10_000, "Time limit for the whole request head to arrive."),
    bodyIdleMs: milliseconds(
      30_000,
      "Maximum pause of a request body, and of a client that reads its answer. A request body must also progress by 64 KiB every 10 seconds.",
    ),
    unfinishedBodyBytes: {
      type: "integer",
      minimum: 1024 * 1024,
      maximum: 1024 ** 4,
      description:
        "Maximum number of bytes that clients can make the gateway hold: bodies and messages that arrive, answers that wait for their reader, results that are being built, and values of subscriptions. Above it, the caller that holds the most is refused first. One caller may use half of it. Default: a quarter of the memory that the process may use, and at most half of V8's heap.",
    },
    connections: integerSchema(
      10_000,
      [1, 1_000_000],
      "Maximum number of open connections, including WebSockets. Further connections are closed at once.",
    ),
    keepAliveMs: milliseconds(65_000, "Time for which an idle connection is kept open."),
    threads: {
      type: ["integer", "string"],
      minimum: 1,
      maximum: 64,
      pattern: "^auto$",
      default: 1,
      description:
        "Number of threads that serve requests, each with whole pipelines. auto: the number of cores that the process may use.",
    },
    fastPath: {
      type: "boolean",
      default: true,
      description:
        "Serve ordinary requests without node:http, which takes less CPU time. With false, node:http serves all requests; the answers are the same. With `tls`, it is not used.",
    },
  },
  { default: {} },
);

const admin = closed(
  "The second listener, for metrics, health, the loaded pipeline and the dashboard. Keep it private.",
  {
    host: {
      type: "string",
      format: "listen-host",
      default: "127.0.0.1",
      description: "Address or host name to listen on.",
    },
    port: { ...port, default: 9090, description: "Port to listen on. 0 uses any free port." },
    hosts: {
      type: "array",
      items: { type: "string", pattern: "^[A-Za-z0-9._-]+$" },
      default: [],
      description:
        "Host names that the dashboard, /metrics, /pipelines and /explain accept, in addition to IP addresses and localhost. List the names that scrapers use.",
    },
    trustProxy,
  },
  { default: {} },
);

const store = closed(
  "The store of the gateway and its services.",
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
      description:
        "Redis in which replicas share request rates and failed attempts. It requires `postgres`. By default, Redis is not used.",
    },
    postgres: {
      type: "string",
      format: "postgres-url",
      description:
        "PostgreSQL database that the services share between replicas. By default, no database is used.",
    },
    replica: {
      type: "string",
      minLength: 1,
      maxLength: 63,
      description: "Name of this gateway in the database, for people. By default, the host name.",
    },
  },
  { default: {} },
);

const log = closed(
  "The log on standard output.",
  {
    level: {
      enum: ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
      default: "info",
      description: "Minimum level of the messages that are logged.",
    },
  },
  { default: {} },
);

/** These accept anything when the file is read (expand.ts checks entries) and list all plugins when published. */
export interface EntrySchemas {
  readonly step: JsonSchema;
  readonly surface: JsonSchema;
  readonly tools: JsonSchema;
  readonly fastify: JsonSchema;
}

function route(entries: EntrySchemas): JsonSchema {
  return closed(
    "A path and the plugins that answer it.",
    {
      path: {
        type: "string",
        description: "Literal and {name} segments, and an optional final * that matches the rest.",
      },
      methods: {
        type: "array",
        items: { type: "string" },
        minItems: 1,
        description:
          'HTTP methods in upper case. GET includes HEAD. "*" means any method, and is the default.',
      },
      websocket: {
        type: "boolean",
        default: false,
        description: "The route accepts WebSocket upgrades.",
      },
      credential: {
        type: "string",
        description:
          "Name of the {name} segment that contains the API key, for clients that cannot send headers. If the request has no Authorization header, the key becomes one. Plugins and logs get the path without the key.",
      },
      run: {
        type: "array",
        items: entries.step,
        default: [],
        description: "Steps, in the order in which a request runs through them.",
      },
      to: { ...entries.surface, description: "The surface that answers the request." },
    },
    { required: ["path", "to"] },
  );
}

/** `services`: those that ship with Sluice, whose sections are part of the file. */
export function fileSchema(
  entries: EntrySchemas,
  services: readonly SectionOwner[] = [],
): JsonSchema {
  const steps = { type: "array", items: entries.step };
  return closed(
    "The configuration of a gateway.",
    withSections(
      {
        version: { const: 1, description: "Version of the file format." },
        secret: {
          type: "string",
          minLength: 16,
          description:
            "Seals sessions and confirmation tokens. Must be the same on every replica. By default, a secret is generated and kept in the data folder.",
        },
        environment: {
          enum: ["dev", "stage", "prod"],
          default: "dev",
          description:
            "Environment of the deployment. Only keys of the same environment are valid.",
        },
        server,
        admin,
        store,
        log,
        plugins: named(
          "Third-party plugins: maps a name to a package or a ./path. With `grants`, the plugin must not ask for more.",
          thirdPartyPlugin,
          { default: {} },
        ),
        tools: {
          type: "array",
          items: entries.tools,
          default: [],
          description: "Plugins that add tools to the shared catalogue.",
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
          description: "Steps for requests that match no route. They run before the 404 or 405.",
        },
        routes: { type: "array", items: route(entries), minItems: 1, description: "All routes." },
      },
      services,
    ),
    { required: ["version", "routes"] },
  );
}

/** A service cannot have one of these names. */
export const gatewaySections: ReadonlySet<string> = new Set(
  Object.keys(fileSchema({ step: {}, surface: {}, tools: {}, fastify: {} })["properties"] ?? {}),
);
