/**
 * Arguments that a tool wants repeated in headers, so that what stands between can route by them (revision 2026-07-28,
 * "Custom headers from tool parameters"): its schema names the header as `x-mcp-header`.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { JsonSchema } from "sluice-gateway/plugin";
import { decodeHeader } from "./decode-header.ts";
import { isObject } from "./json-rpc.ts";

/** One of them: where it stands in the input, and the header's name, lower case. */
export interface ParamHeader {
  readonly path: readonly string[];
  readonly header: string;
}

/**
 * Those of a schema. Only what is reached through `properties` alone counts; anywhere else the annotation says nothing.
 */
export function paramHeaders(schema: unknown, path: readonly string[] = []): ParamHeader[] {
  const properties = isObject(schema) ? schema["properties"] : undefined;
  if (!isObject(properties)) return [];
  return Object.entries(properties).flatMap(([name, property]) => {
    const at = [...path, name];
    const header: unknown = isObject(property) ? property["x-mcp-header"] : undefined;
    const own = typeof header === "string" ? [{ path: at, header: nameOf(header) }] : [];
    return [...own, ...paramHeaders(property, at)];
  });
}

const nameOf = (header: string): string => `mcp-param-${header.toLowerCase()}`;

/** By tool; without those that ask for none. */
export function paramHeadersOf(
  tools: readonly { readonly name: string; readonly inputSchema: JsonSchema }[],
): ReadonlyMap<string, readonly ParamHeader[]> {
  return new Map(
    tools
      .map(({ name, inputSchema }) => [name, paramHeaders(inputSchema)] as const)
      .filter(([, wanted]) => wanted.length > 0),
  );
}

/** The first header that does not say what the input says; undefined when all do. */
export function paramMismatch(
  wanted: readonly ParamHeader[],
  headers: Readonly<IncomingHttpHeaders>,
  input: unknown,
): string | undefined {
  return wanted.find(
    ({ path, header }) => !agrees(decodeHeader(headers[header]), valueAt(input, path)),
  )?.header;
}

function valueAt(input: unknown, path: readonly string[]): unknown {
  let value = input;
  for (const name of path) value = isObject(value) ? value[name] : undefined;
  return value;
}

/** `told`: undefined without the header, null when it is none of the two forms. An absent or null argument has none. */
function agrees(told: string | null | undefined, value: unknown): boolean {
  if (value === undefined || value === null) return told === undefined;
  if (typeof told !== "string") return false;
  // 42.0 and 42 are the same number.
  if (typeof value === "number") return told.trim() !== "" && Number(told) === value;
  if (typeof value === "boolean") return told === `${value}`;
  // Of what no header can hold, a list or an object, the schema has the last word.
  return typeof value !== "string" || told === value;
}
