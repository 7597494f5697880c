import type { JsonSchema } from "sluice-gateway/plugin";
import { durationMs } from "sluice-gateway/internal/toolkit";

/**
 * The event that the last byte of an answer waits for. `settled`: its charge is recorded, in PostgreSQL if
 * `store.postgres` is set and otherwise on disk. `async`: nothing.
 */
export type Durability = "settled" | "async";

/** The section `metering` of pipeline.yaml after validation, with defaults. */
export interface Options {
  readonly metering: {
    readonly durability: Durability;
    readonly export?: Omit<UsageExportConfig, "url" | "everyMs"> & {
      readonly url?: string;
      readonly every: string;
    };
  };
}

export interface UsageExportConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly everyMs: number;
  readonly batch: number;
  readonly source: string;
  readonly type: string;
  readonly subject: "workspace" | "key";
}

/** The schema of an object that does not accept other keys. */
export function closed(
  description: string,
  properties: Readonly<Record<string, JsonSchema>>,
  more: JsonSchema = {},
): JsonSchema {
  return { type: "object", description, properties, additionalProperties: false, ...more };
}

const usageExport = closed(
  "Delivers every settled charge to a billing system, as CloudEvents over HTTP.",
  {
    url: {
      type: "string",
      format: "http-url",
      description: "URL to which batches are posted. Without it, nothing is exported.",
    },
    headers: {
      type: "object",
      description: "Header fields of each request, such as authorization.",
      additionalProperties: { type: "string", pattern: "^[\\t\\x20-\\x7e]*$" },
      default: {},
      propertyNames: { type: "string", format: "added-header" },
    },
    every: {
      type: "string",
      format: "short-duration",
      default: "5s",
      description: "Interval at which the journal is checked while it has no new charges.",
    },
    batch: {
      type: "integer",
      minimum: 1,
      maximum: 10_000,
      default: 100,
      description: "Maximum number of events per request.",
    },
    source: {
      type: "string",
      minLength: 1,
      default: "sluice",
      description: "Source of the events, a URI reference. Source and id identify duplicates.",
    },
    type: {
      type: "string",
      minLength: 1,
      default: "sluice.charge",
      description: "Type of the events.",
    },
    subject: {
      enum: ["workspace", "key"],
      default: "workspace",
      description: "Subject of an event: the workspace or the key that it is counted for.",
    },
  },
);

const metering = closed(
  "Durability and export of charges.",
  {
    durability: {
      enum: ["settled", "async"],
      removed: {
        local:
          "Write `settled`, with a PostgreSQL that is highly available if gateways must serve while a server fails, or `async`.",
      },
      default: "settled",
      description:
        "settled: a charge is on disk, or in PostgreSQL with store.postgres, before the last byte of the answer is sent. async: soon after.",
    },
    export: usageExport,
  },
  { default: {} },
);

export const sections = { metering };

/** Returns undefined without a url, because the variable of the url may be empty. Usage is then exported by hand. */
export function exportOf({ metering: { export: given } }: Options): UsageExportConfig | undefined {
  if (given?.url === undefined) return undefined;
  const { url, every, ...rest } = given;
  return { ...rest, url, everyMs: durationMs(every) ?? 0 };
}
