/** Converts the section `upstreams`. */
import type { UpstreamConfig } from "./config.ts";
import type { Position } from "./fault.ts";
import { durationMs, splitUrls } from "./formats.ts";
import { find, isDefaulted, type Located } from "./located.ts";
import { upstreamSchema } from "./schema-backends.ts";
import { validate } from "./validate.ts";

/** One upstream after validation, with defaults. */
export type UpstreamShape = Omit<
  UpstreamConfig,
  "name" | "at" | "urls" | "isDefault" | "methods" | "maxHeadAgeMs"
> & {
  readonly urls?: string | readonly (string | null)[];
  readonly methods: Readonly<Record<string, boolean | UpstreamMethod>>;
  readonly maxHeadAge?: string;
};
type UpstreamMethod = Exclude<UpstreamConfig["methods"][string], false>;

export function shapeUpstreams(
  upstreams: Readonly<Record<string, UpstreamShape | null>>,
  root: Located,
): ReadonlyMap<string, UpstreamConfig> {
  const result = new Map<string, UpstreamConfig>();
  const nodes = find(root, "/upstreams");
  if (nodes?.kind !== "map") return result;
  for (const [name, { keyAt: at, value: node }] of nodes.entries) {
    // An upstream that could not be read is kept, because using its name is not a fault.
    const { urls = [], methods, maxHeadAge, ...rest } = upstreams[name] ?? blankUpstream(at);
    const urlsNode = find(node, "/urls");
    const isDefault = urlsNode !== undefined && isDefaulted(urlsNode);
    const list = typeof urls === "string" ? [urls] : urls;
    result.set(name, {
      ...rest,
      name,
      at,
      ...(isDefault && { isDefault }),
      urls: list.flatMap((text) => (text === null ? [] : splitUrls(text))),
      methods: Object.fromEntries(
        Object.entries(methods).map(([method, rule]) => [method, rule === true ? {} : rule]),
      ),
      maxHeadAgeMs: maxHeadAge === undefined ? undefined : durationMs(maxHeadAge),
    });
  }
  return result;
}

function blankUpstream(at: Position): UpstreamShape {
  // `validate` fills in the defaults of the schema; `urls` may be missing.
  return validate({ kind: "map", at, entries: new Map() }, upstreamSchema).value as UpstreamShape;
}
