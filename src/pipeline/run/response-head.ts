/** The response head on its way up: a status and a flat list of fields that hooks edit in place. */
import type { Reply, ResponseHead } from "../../plugin.ts";
import type { ClientResponse } from "../../message/client-response.ts";

export class LiveResponseHead implements ResponseHead {
  #status: number;
  readonly from: "step" | "surface";
  readonly streamed: boolean;
  readonly code: string | undefined;
  /** Flat list of name, value … in the form that `http.ServerResponse.writeHead` takes. */
  readonly fields: string[];

  constructor(reply: Omit<Reply, "body">, from: "step" | "surface", streamed: boolean) {
    this.#status = reply.status;
    this.from = from;
    this.streamed = streamed;
    this.code = reply.code;
    this.fields = reply.headers === undefined ? [] : sentFields(reply.headers, reply.status);
  }

  get status(): number {
    return this.#status;
  }

  /** Throws in the hook that sets an invalid status, so that the log names its step. */
  set status(status: number) {
    checkStatus(status);
    this.#status = status;
  }

  get(name: string): string | undefined {
    const at = this.#find(name, 0);
    return at === -1 ? undefined : this.fields[at + 1];
  }

  set(name: string, value: string): void {
    this.remove(name);
    this.fields.push(name, value);
  }

  add(name: string, value: string): void {
    this.fields.push(name, value);
  }

  remove(name: string): void {
    for (let at = this.#find(name, 0); at !== -1; at = this.#find(name, at)) {
      this.fields.splice(at, 2);
    }
  }

  #find(name: string, from: number): number {
    for (let at = from; at < this.fields.length; at += 2) {
      const field = this.fields[at];
      // Most names differ in length, which is the cheapest comparison.
      if (field === undefined || field.length !== name.length) continue;
      if (field === name || field.toLowerCase() === name.toLowerCase()) return at;
    }
    return -1;
  }
}

/** Throws for a status that no final answer can have. After one below 200, the client waits for another answer. */
export function checkStatus(status: unknown): void {
  if (Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 999) return;
  const got = typeof status === "string" ? JSON.stringify(status) : String(status);
  throw new RangeError(`expected a status from 200 to 999, got ${got}`);
}

/** Fields that belong to one connection (RFC 9110 section 7.6.1), so that an answer cannot repeat them for another one. */
const connectionFields: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);
/** Bit n is set if one of these names has n characters. It saves converting most names to lower case. */
const connectionLengths = [...connectionFields].reduce(
  (bits, { length }) => bits | (1 << length),
  0,
);

/**
 * Returns whether a field of an answer belongs to one connection. An answer may ask for the end of its
 * connection, and 426 must name the protocol to upgrade to (RFC 9110 section 15.5.22).
 */
export function isConnectionField(name: string, value: unknown, status: number): boolean {
  if (((connectionLengths >> name.length) & 1) === 0) return false;
  const lower = name.toLowerCase();
  if (!connectionFields.has(lower)) return false;
  return !(lower === "connection" && value === "close") && !(lower === "upgrade" && status === 426);
}

/** Returns a copy of the fields without those of a connection. Throws if a name has no value. */
function sentFields(headers: readonly string[], status: number): string[] {
  // A plugin in JavaScript may return an object.
  const isList: boolean = Array.isArray(headers);
  if (!isList) throw new TypeError("headers must be a flat list: name, value …");
  if (headers.length % 2 === 1) throw new TypeError("a header has a name without a value");
  const fields = headers.slice();
  for (let at = 0; at < fields.length; at += 2) {
    if (!isConnectionField(fields[at] ?? "", fields[at + 1], status)) continue;
    fields.splice(at, 2);
    at -= 2;
  }
  return fields;
}

export function sendEarlyHints(
  res: Pick<ClientResponse, "writeEarlyHints">,
  headers: readonly string[],
): void {
  const hints = earlyHints(headers);
  if (hints === undefined) return;
  try {
    res.writeEarlyHints(hints);
  } catch {
    // Node accepts fewer forms of Link than RFC 8288. A hint is optional, so the answer is sent without it.
  }
}

/** Returns hints in the form of `writeEarlyHints`, which needs a link. Undefined without one (RFC 8297). */
function earlyHints(headers: readonly string[]): Record<string, string | string[]> | undefined {
  const hints: Record<string, string | string[]> = {};
  const links: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = (headers[at] ?? "").toLowerCase();
    const value = headers[at + 1] ?? "";
    // A field can hold several links, separated by the commas before each `<` (RFC 8288 section 3).
    if (name === "link") links.push(...value.split(/,\s*(?=<)/));
    else hints[name] = value;
  }
  return links.length === 0 ? undefined : { link: links, ...hints };
}
