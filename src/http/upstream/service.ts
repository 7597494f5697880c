import type { Config } from "../../config/config.ts";
import { splitUrls } from "../../config/formats.ts";
import { integerSchema } from "../../base/shared-schemas.ts";
import { pointerKey } from "../../base/json-pointer.ts";
import { defineService, type JsonSchema, type Upstream, type Upstreams } from "../../plugin.ts";
import { createForwarder } from "./forward.ts";
import { UpstreamPools } from "./upstream.ts";

/** An entry of the section after validation. `urls` is missing if it could not be read. */
type Entry = Omit<Upstream, "name" | "urls"> & {
  readonly urls?: string | readonly (string | null)[];
};

interface Options {
  readonly upstreams: Readonly<Record<string, Entry | null>>;
}

const day = 86_400_000;

function milliseconds(fallback: number, description: string): JsonSchema {
  return integerSchema(fallback, [1, day], description);
}

const entry: JsonSchema = {
  type: "object",
  description: "One backend: a node or another HTTP server.",
  additionalProperties: false,
  required: ["urls"],
  properties: {
    urls: {
      type: ["string", "array"],
      format: "upstream-urls",
      items: { type: "string", format: "upstream-urls" },
      minItems: 1,
      description: "One or more http, https, ws or wss URLs: a list, or a string with commas.",
    },
    connectMs: milliseconds(2_000, "Time limit for opening a connection."),
    headersMs: milliseconds(30_000, "Time limit until the head of the answer arrives."),
    idleMs: milliseconds(60_000, "Maximum pause between two chunks of a body."),
    connections: integerSchema(
      64,
      [1, 10_000],
      "Maximum number of connections per URL. A node allows 100 by default.",
    ),
  },
};

export const upstreams = defineService<Options, Upstreams>({
  name: "upstreams",
  description: "The backends of the section `upstreams`, by name.",
  sections: {
    upstreams: {
      type: "object",
      description: "Backends, by name.",
      default: {},
      additionalProperties: entry,
    },
  },
  dryRun: (options) => ({
    get: (name) => upstreamOf(options, name),
    // A dry run forwards no request.
    forwarder: (name) => upstreamOf(options, name) && { forward: () => Promise.resolve(undefined) },
  }),
  start(options, { clock, log, metrics }, { keep, isDefault }) {
    const inUse = new Map<string, UpstreamPools>();
    return {
      service: {
        get: (name) => upstreamOf(options, name),
        forwarder(name, settings = {}) {
          const upstream = upstreamOf(options, name);
          if (upstream === undefined) return undefined;
          const open = (): UpstreamPools => new UpstreamPools(upstream, clock, log);
          const pools = keep(JSON.stringify(upstream), open, (opened) => opened.close());
          inUse.set(name, pools);
          return createForwarder(pools, settings, metrics);
        },
      },
      backends: () =>
        Array.from(inUse, ([name, { ready, members }]) => ({
          kind: "upstream",
          title: `upstream ${name}`,
          ready: ready ? (true as const) : "unreachable",
          isDefault: isDefault(`/upstreams/${pointerKey(name)}/urls`),
          details: {
            name,
            ready,
            urls: members.map(({ url, ejection }) => ({
              // The host alone, without credentials and path.
              name: url.host,
              state: ejection.isEjected ? "unreachable" : "usable",
              ...ejection.absence,
            })),
          },
        })),
    };
  },
});

function upstreamOf({ upstreams: entries }: Options, name: string): Upstream | undefined {
  const found = Object.hasOwn(entries, name) ? entries[name] : undefined;
  if (found?.urls === undefined) return undefined;
  const { connectMs, headersMs, idleMs, connections } = found;
  return { name, urls: urlsOf(found.urls), connectMs, headersMs, idleMs, connections };
}

export function upstreamIn(
  { sections }: Pick<Config, "sections">,
  name: string,
): Upstream | undefined {
  // The section has been checked with the schema above.
  return upstreamOf(sections as unknown as Options, name);
}

function urlsOf(urls: string | readonly (string | null)[]): string[] {
  return [urls].flat().flatMap((text) => (text === null ? [] : splitUrls(text)));
}
