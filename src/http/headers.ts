/**
 * Which header fields cross the gateway, in both directions. Fields stay flat (name, value, name, value …) from the
 * parser to the socket: order, case and duplicates survive, and nothing is built that is not sent.
 */
import type { FieldChanges, RequestHead } from "../plugin.ts";

/** Field changes and protocol rules of one direction, compiled once at start. */
export interface FieldRules {
  /** Lower-case names that do not cross. */
  readonly dropped: ReadonlySet<string>;
  /** Bit n is set when some dropped name has n characters: most fields are passed without lower-casing their name. */
  readonly lengths: number;
  /** Flat fields added at the end. */
  readonly added: readonly string[];
}

/**
 * Fields that mean something on one connection only (RFC 9110 section 7.6.1), and those that frame a message: the next
 * connection gets its own. `Expect` is answered by the gateway itself (RFC 9110 section 10.1.1).
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

/** What a peer that is not a trusted proxy may not say about a client, whatever an upstream would make of it. */
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

/** The pseudonym in `Via` (RFC 9110 section 7.6.3): host names are nobody's business. */
const via = ["via", "1.1 sluice"];

/** Rules for requests. The client's `Authorization` holds its API key: it crosses only where the operator says so. */
export function requestRules(changes: FieldChanges = {}, passAuthorization = false): FieldRules {
  const dropped = [...hopByHop, ...requestOnly, ...provenance];
  if (!passAuthorization) dropped.push("authorization");
  return compile(dropped, changes);
}

/**
 * The same for requests that carry a trace context of ours: the client's makes room for it. Undefined where the
 * operator has said what an upstream sees of traces.
 */
export function tracedRules(rules: FieldRules): FieldRules | undefined {
  const names = ["traceparent", "tracestate"];
  if (names.some((name) => rules.dropped.has(name))) return undefined;
  return {
    dropped: new Set([...rules.dropped, ...names]),
    lengths: names.reduce((lengths, { length }) => lengths | lengthBit(length), rules.lengths),
    added: rules.added,
  };
}

/** What the gateway charges is the gateway's to say, whatever an upstream says that it did. */
const ownResponseFields = ["x-used-cu-milli"];

export function responseRules(changes: FieldChanges = {}): FieldRules {
  return compile([...hopByHop, ...ownResponseFields], changes);
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

/** Names of 31 characters and more share one bit. */
function lengthBit(length: number): number {
  return 1 << Math.min(length, 31);
}

const requestIdField = "x-request-id";

function isRequestId(name: string): boolean {
  return name.length === requestIdField.length && name.toLowerCase() === requestIdField;
}

/**
 * The fields that an upstream gets: the client's without those that end here, then where the request came from
 * (`X-Forwarded-For`, `-Proto`, `-Host`), `Via`, and the operator's own. `Host` and framing are the sender's.
 * `requestId`: the exchange's own, in place of what the client may have sent, so that logs on both sides name it alike.
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

/**
 * Says where the request came from. `X-Forwarded-For` holds only hops that the gateway verified: from the client's
 * address, as it reads it behind its trusted proxies, to the connection's own peer. What stood left of that proves
 * nothing, and an upstream that trusts this gateway would believe it.
 */
function addProvenance(fields: string[], request: RequestHead): void {
  const { headers, peer } = request;
  const authority = peer.trusted
    ? (headers["x-forwarded-host"] ?? headers["host"])
    : headers["host"];
  const proto = peer.trusted ? headers["x-forwarded-proto"] : undefined;
  fields.push("x-forwarded-for", peer.trusted ? verifiedHops(request) : peer.address);
  fields.push("x-forwarded-proto", proto === undefined ? "http" : String(proto));
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

/** What the parser kept of an answer's head or trailers: flat names and values as they came. */
export type RawFields = readonly (Buffer | string)[];

/** What is known of an answer besides its raw fields: `headers` is keyed by lower-case name. */
export interface AnswerHead {
  readonly method: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/**
 * The fields that a client gets. Undefined when the answer is coded in a way that nobody asked for (`Transfer-Encoding:
 * gzip, chunked`): without that field its bytes would mean something else.
 */
export function responseFields(
  raw: RawFields,
  answer: AnswerHead,
  rules: FieldRules,
): string[] | undefined {
  const { dropped, lengths } = rules;
  const named = connectionOptions(answer.headers["connection"]);
  const fields: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = text(raw[at]);
    const value = text(raw[at + 1]);
    if ((lengths & lengthBit(name.length)) !== 0) {
      const lower = name.toLowerCase();
      if (lower === "transfer-encoding" && value.toLowerCase() !== "chunked") return undefined;
      if (dropped.has(lower)) continue;
      // A 204 has no length to speak of (RFC 9110 section 8.6); trailers need a chunked body to follow.
      if (lower === "content-length" && answer.status === 204) continue;
      if (lower === "trailer" && !mayHaveTrailers(answer)) continue;
    }
    if (named !== undefined && named.has(name.toLowerCase())) continue;
    fields.push(name, value);
  }
  for (const part of rules.added) fields.push(part);
  return fields;
}

function mayHaveTrailers({ method, status, headers }: AnswerHead): boolean {
  const bodiless = method === "HEAD" || status === 204 || status === 304;
  return !bodiless && headers["content-length"] === undefined;
}

/** Fields that mean something other than what they say when they come after the body (RFC 9110 section 6.5.1). */
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

/** The trailers that a client gets; undefined when there are none. */
export function trailerFields(raw: RawFields | undefined): string[] | undefined {
  if (raw === undefined || raw.length === 0) return undefined;
  const fields: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = text(raw[at]);
    if (!notInTrailers.has(name.toLowerCase())) fields.push(name, text(raw[at + 1]));
  }
  return fields;
}

/** Field values are bytes; Latin-1 keeps each of them as it is. */
function text(bytes: Buffer | string | undefined): string {
  return typeof bytes === "string" ? bytes : bytes === undefined ? "" : bytes.toString("latin1");
}

/** Fields that `Connection` declares to be hop-by-hop; undefined when it names none, as nearly always. */
function connectionOptions(value: string | string[] | undefined): ReadonlySet<string> | undefined {
  if (value === undefined || value === "keep-alive" || value === "close") return undefined;
  return new Set(
    String(value)
      .toLowerCase()
      .split(",")
      .map((option) => option.trim()),
  );
}

/** `TE: trailers` is true of this gateway too: it takes trailers and passes them on (RFC 9110 section 10.1.4). */
function takesTrailers(te: string | string[] | undefined): boolean {
  if (te === undefined) return false;
  return String(te)
    .toLowerCase()
    .split(",")
    .some((coding) => coding.trim() === "trailers");
}
