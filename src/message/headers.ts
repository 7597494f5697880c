/**
 * Decides which header fields cross the gateway. Fields remain a flat list (name, value, name, value …) from the parser
 * to the socket, so that order, case and duplicates are preserved and nothing is built in vain.
 */
import { clientScheme } from "./address.ts";
import type { FieldChanges, RequestHead } from "../plugin.ts";

export interface FieldRules {
  /** Lower-case names of the fields that do not cross. */
  readonly dropped: ReadonlySet<string>;
  /** Bit n is set if a dropped name has n characters. It saves converting most names to lower case. */
  readonly lengths: number;
  readonly added: readonly string[];
}

/**
 * Fields that apply to one connection only (RFC 9110 section 7.6.1), and fields that frame a message, which the next
 * connection sets itself. The gateway itself answers `Expect` (RFC 9110 section 10.1.1).
 */
const hopByHop = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "te",
  "transfer-encoding",
  "upgrade",
];
const requestOnly = ["content-length", "expect", "host", "trailer", "http2-settings"];

/** Fields with claims about a client, which are accepted only from trusted proxies. */
const provenance = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-prefix",
  "x-forwarded-proto",
  "x-forwarded-server",
  "x-real-ip",
];

/** `Via` contains a pseudonym (RFC 9110 section 7.6.3), so that it does not reveal a host name. */
const via = ["via", "1.1 sluice"];

/** The client's `Authorization` contains its API key, so it crosses only if configured. */
export function requestRules(changes: FieldChanges = {}, passAuthorization = false): FieldRules {
  const dropped = [...hopByHop, ...requestOnly, ...provenance];
  if (!passAuthorization) dropped.push("authorization");
  return compile(dropped, changes);
}

/** The gateway's trace context replaces the client's. Undefined if the operator has configured these fields. */
export function tracedRules(rules: FieldRules): FieldRules | undefined {
  const names = ["traceparent", "tracestate"];
  if (names.some((name) => rules.dropped.has(name))) return undefined;
  return {
    dropped: new Set([...rules.dropped, ...names]),
    lengths: names.reduce((lengths, { length }) => lengths | lengthBit(length), rules.lengths),
    added: rules.added,
  };
}

/** Response fields that only the gateway may set. */
const ownFields = new Set<string>();

/** Leaves out the fields of the connection, the length, and the fields that only the gateway may set. */
export function repeatableFields(raw: readonly string[]): readonly string[] {
  const connection = raw.filter(
    (_, at) => at % 2 === 1 && raw[at - 1]?.toLowerCase() === "connection",
  );
  const named = connectionOptions(connection.join());
  return fieldsExcept(raw, (name) => {
    const lower = name.toLowerCase();
    return connectionFields.has(lower) || ownFields.has(lower) || named?.has(lower) === true;
  });
}

/** Removes response fields from the answers of upstreams, because only the gateway may set them. */
export function reserveFields(names: readonly string[]): void {
  for (const name of names) ownFields.add(name);
}

export function responseRules(changes: FieldChanges = {}): FieldRules {
  return compile([...hopByHop, ...ownFields], changes);
}

function compile(dropped: readonly string[], changes: FieldChanges): FieldRules {
  const set = Object.entries(changes.set ?? {});
  const names = new Set(
    [...dropped, ...(changes.remove ?? []), ...set.map(([name]) => name)].map((name) =>
      name.toLowerCase(),
    ),
  );
  let lengths = 0;
  for (const { length } of [...names, "content-length", "trailer"]) lengths |= lengthBit(length);
  return { dropped: names, lengths, added: [...via, ...set.flat()] };
}

function lengthBit(length: number): number {
  return 1 << Math.min(length, 31);
}

const requestIdField = "x-request-id";

function isRequestId(name: string): boolean {
  return name.length === requestIdField.length && name.toLowerCase() === requestIdField;
}

/**
 * Returns the fields that an upstream gets: the client's fields that may cross, then the origin of the request
 * (`X-Forwarded-For`, `-Proto`, `-Host`), `Via`, and the operator's fields. The HTTP client adds `Host` and framing.
 * `requestId`: id of the exchange, which replaces the client's, so that logs on both sides contain the same id.
 */
export function requestFields(
  request: RequestHead,
  rules: FieldRules,
  requestId?: string,
): string[] {
  const { rawHeaders, headers } = request;
  const { dropped, lengths } = rules;
  const named = connectionOptions(headers["connection"]);
  const fields: string[] = [];
  const identifies = requestId !== undefined && !dropped.has(requestIdField);
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if ((lengths & lengthBit(name.length)) !== 0 && dropped.has(name.toLowerCase())) continue;
    if (named !== undefined && named.has(name.toLowerCase())) continue;
    if (identifies && isRequestId(name)) continue;
    fields.push(name, rawHeaders[at + 1] ?? "");
  }
  if (identifies) fields.push(requestIdField, requestId);
  if (takesTrailers(headers["te"])) fields.push("te", "trailers");
  addProvenance(fields, request);
  for (const part of rules.added) fields.push(part);
  return fields;
}

/** RFC 9110 section 5.6.2 and 5.5. Characters above 0xff would lose bits when they are sent as bytes. */
const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Lines with CRLF. Undefined for an invalid name or value, which could contain further fields or another request. */
export function fieldLines(fields: readonly string[]): string | undefined {
  let lines = "";
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    if (!fieldName.test(name) || !fieldValue.test(value)) return undefined;
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** Shared by all requests for which no step has set a field. */
export const noFields: readonly string[] = [];

/** Fields that belong to a connection. Only the client that sends a request may set them. */
const connectionFields = new Set([...hopByHop, ...requestOnly]);

/**
 * Adds or replaces a field, with its name in lower case. Throws an Error if it is invalid or belongs to the connection.
 */
export function withUpstreamField(
  fields: readonly string[],
  name: string,
  value: string,
): readonly string[] {
  const lower = name.toLowerCase();
  if (!fieldName.test(name) || !fieldValue.test(value)) {
    throw new TypeError(`invalid header for the upstream: "${name}"`);
  }
  if (connectionFields.has(lower)) {
    throw new TypeError(
      `a plugin cannot set the header "${name}", which belongs to the connection`,
    );
  }
  return [...fieldsExcept(fields, (other) => other === lower), lower, value];
}

/** `own` replaces fields of the same name, except those in `fixed`, the lower-case names that the operator has set. */
export function replaceFields(
  fields: readonly string[],
  own: readonly string[],
  fixed: ReadonlySet<string>,
): readonly string[] {
  const set = fieldsExcept(own, (name) => fixed.has(name));
  const names = new Set(set.filter((_, at) => at % 2 === 0));
  return [...fieldsExcept(fields, (name) => names.has(name.toLowerCase())), ...set];
}

function fieldsExcept(fields: readonly string[], excludes: (name: string) => boolean): string[] {
  return fields.filter((_, at) => !excludes(fields[at - (at % 2)] ?? ""));
}

/**
 * `X-Forwarded-For` contains only hops that the gateway has verified, from the client's address to the peer of the
 * connection. Entries further left are not reliable, and an upstream that trusts this gateway would believe them.
 */
function addProvenance(fields: string[], request: RequestHead): void {
  const { headers, peer } = request;
  const authority = peer.trusted
    ? (headers["x-forwarded-host"] ?? headers["host"])
    : headers["host"];
  const proto = peer.trusted ? headers["x-forwarded-proto"] : undefined;
  fields.push("x-forwarded-for", peer.trusted ? verifiedHops(request) : peer.address);
  fields.push(
    "x-forwarded-proto",
    proto === undefined ? clientScheme({ peer, headers }) : String(proto),
  );
  if (authority !== undefined) fields.push("x-forwarded-host", String(authority));
}

function verifiedHops({ address, peer, headers }: RequestHead): string {
  if (address === peer.address) return address;
  const hops = String(headers["x-forwarded-for"] ?? "")
    .split(",")
    .map((hop) => hop.trim());
  const at = hops.lastIndexOf(address);
  return [...(at === -1 ? [address] : hops.slice(at)), peer.address].join(", ");
}

/** The head of an answer. `connection`: the options of its `Connection` fields, in lower case. */
export interface AnswerHead {
  readonly method: string;
  readonly status: number;
  readonly connection: string | undefined;
  readonly hasLength: boolean;
}

/** Returns the fields that a client gets. `raw`: a flat list of unchanged names and values. */
export function responseFields(
  raw: readonly string[],
  answer: AnswerHead,
  rules: FieldRules,
): string[] {
  const { dropped, lengths } = rules;
  const named = connectionOptions(answer.connection);
  const fields: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? "";
    if ((lengths & lengthBit(name.length)) !== 0) {
      const lower = name.toLowerCase();
      if (dropped.has(lower)) continue;
      // A 204 must not have a length (RFC 9110 section 8.6). Trailers need a chunked body.
      if (lower === "content-length" && answer.status === 204) continue;
      if (lower === "trailer" && !mayHaveTrailers(answer)) continue;
    }
    if (named !== undefined && named.has(name.toLowerCase())) continue;
    fields.push(name, raw[at + 1] ?? "");
  }
  for (const part of rules.added) fields.push(part);
  return fields;
}

function mayHaveTrailers({ method, status, hasLength }: AnswerHead): boolean {
  const bodiless = method === "HEAD" || status === 204 || status === 304;
  return !bodiless && !hasLength;
}

/** Fields that must not be trailers, because they change how the message is processed (RFC 9110 section 6.5.1). */
const notInTrailers: ReadonlySet<string> = new Set([
  ...hopByHop,
  ...requestOnly,
  "authorization",
  "cache-control",
  "content-encoding",
  "content-range",
  "content-type",
  "cookie",
  "set-cookie",
  "location",
  "retry-after",
  "vary",
  "www-authenticate",
]);

/** Returns the trailers that a client gets. Undefined if the answer has none. `raw`: in the form of `responseFields`. */
export function trailerFields(raw: readonly string[]): string[] | undefined {
  if (raw.length === 0) return undefined;
  const fields: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? "";
    if (!notInTrailers.has(name.toLowerCase())) fields.push(name, raw[at + 1] ?? "");
  }
  return fields;
}

function connectionOptions(value: string | string[] | undefined): ReadonlySet<string> | undefined {
  if (value === undefined || value === "keep-alive" || value === "close") return undefined;
  return new Set(
    String(value)
      .toLowerCase()
      .split(",")
      .map((option) => option.trim()),
  );
}

/** The gateway may forward `TE: trailers`, because it passes trailers on (RFC 9110 section 10.1.4). */
function takesTrailers(te: string | string[] | undefined): boolean {
  if (te === undefined) return false;
  return String(te)
    .toLowerCase()
    .split(",")
    .some((coding) => coding.trim() === "trailers");
}
