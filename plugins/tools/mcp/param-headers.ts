/**
 * Arguments that clients repeat in headers, so that proxies can route by them (revision 2026-07-28, "Custom headers
 * from tool parameters"). The schema of the tool names the header in `x-mcp-header`.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { JsonSchema } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";

/** `path`: path of the argument in the input. `header`: in lower case. */
export interface ParamHeader {
  readonly path: readonly string[];
  readonly header: string;
}

/** The annotation counts only on members that are reached through `properties` alone. */
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

export function paramHeadersOf(
  tools: readonly { readonly name: string; readonly inputSchema: JsonSchema }[],
): ReadonlyMap<string, readonly ParamHeader[]> {
  return new Map(
    tools
      .map(({ name, inputSchema }) => [name, paramHeaders(inputSchema)] as const)
      .filter(([, wanted]) => wanted.length > 0),
  );
}

export function paramMismatch(
  wanted: readonly ParamHeader[],
  headers: Readonly<IncomingHttpHeaders>,
  input: unknown,
): string | undefined {
  return wanted.find(
    ({ path, header }) => !matchesArgument(decodeHeader(headers[header]), valueAt(input, path)),
  )?.header;
}

function valueAt(input: unknown, path: readonly string[]): unknown {
  let value = input;
  for (const name of path) value = isObject(value) ? value[name] : undefined;
  return value;
}

/**
 * `text`: undefined if the header is missing, null if it is malformed. An absent or null argument must have no header.
 */
function matchesArgument(text: string | null | undefined, value: unknown): boolean {
  if (value === undefined || value === null) return text === undefined;
  if (typeof text !== "string") return false;
  // 42.0 and 42 are the same number.
  if (typeof value === "number") return text.trim() !== "" && Number(text) === value;
  if (typeof value === "boolean") return text === `${value}`;
  // A list or an object cannot be in a header; the schema check rejects it.
  return typeof value !== "string" || text === value;
}

const encodedForm = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

/**
 * A header value of revision 2026-07-28 is plain text, or base64 with a marker for text that a header cannot contain.
 *
 * Undefined if the header is missing. Null if it is repeated, or has the marker but is not UTF-8 in canonical base64.
 */
export function decodeHeader(
  value: string | readonly string[] | undefined,
): string | null | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "string") return null;
  if (!value.startsWith("=?base64?") || !value.endsWith("?=")) return value;
  const encoded = encodedForm.exec(value)?.[1];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  return Buffer.from(text, "utf8").toString("base64") === encoded ? text : null;
}
