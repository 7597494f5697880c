/** The head of an answer as node:http would write it. */
import { STATUS_CODES, validateHeaderName, validateHeaderValue } from "node:http";

/** What ends a body: its length, the last chunk; `none`: there is none, and what is written of one is dropped. */
export type BodyFraming = "sized" | "chunked" | "none";

export interface ResponseHeadText {
  readonly text: string;
  readonly framing: BodyFraming;
  readonly keepsAlive: boolean;
}

/**
 * `fields`: flat name, value … `keepAliveSeconds`: undefined closes the connection behind the answer. Throws what
 * node:http throws for a status or a field that HTTP does not allow.
 */
export function responseHead(
  status: number,
  fields: readonly string[],
  keepAliveSeconds: number | undefined,
): ResponseHeadText {
  if (!Number.isInteger(status) || status < 100 || status > 999) {
    throw new RangeError(`invalid status code: ${status}`);
  }
  // Each piece begins with the line's end before it: what is the same in every answer is one piece.
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}`;
  let hasDate = false;
  let hasLength = false;
  let connection: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    // How the body goes is decided here.
    if (name.length === 17 && name.toLowerCase() === "transfer-encoding") continue;
    validateHeaderValue(name, value);
    text = text + beginning(name) + value;
    // Lengths first: most names differ there.
    if (name.length === 14) hasLength ||= name.toLowerCase() === "content-length";
    else if (name.length === 4) hasDate ||= name.toLowerCase() === "date";
    else if (name.length === 10 && name.toLowerCase() === "connection") connection = value;
  }
  const keepsAlive = keepAliveSeconds !== undefined && !/\bclose\b/i.test(connection ?? "");
  if (!hasDate) text += dateLine();
  if (connection === undefined) text += keepsAlive ? persistence(keepAliveSeconds) : closing;
  // What followed such a head would be read as the next answer (RFC 9110 section 6.4.1).
  const isBodiless = status < 200 || status === 204 || status === 304;
  const framing = isBodiless ? "none" : hasLength ? "sized" : "chunked";
  text += framing === "chunked" ? "\r\nTransfer-Encoding: chunked\r\n\r\n" : "\r\n\r\n";
  return { text, framing, keepsAlive };
}

const closing = "\r\nConnection: close";

/** How lines begin, by their names, which are few and come again with every answer. */
const beginnings = new Map<string, string>();
const beginningsMax = 1_000;

/** Throws for a name that is none. */
function beginning(name: string): string {
  const known = beginnings.get(name);
  if (known !== undefined) return known;
  validateHeaderName(name);
  const text = `\r\n${name}: `;
  if (beginnings.size < beginningsMax) beginnings.set(name, text);
  return text;
}

let persistenceText = "";
let persistenceSeconds = -1;

/** There is one listener in a process, with one such time. */
function persistence(seconds: number): string {
  if (seconds !== persistenceSeconds) {
    persistenceSeconds = seconds;
    persistenceText = `\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${seconds}`;
  }
  return persistenceText;
}

let date = "";
let dateSecond = 0;

/** With the time as RFC 9110 section 5.6.7 writes it; made once a second. */
function dateLine(): string {
  const ms = Date.now();
  const second = Math.floor(ms / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    date = `\r\nDate: ${new Date(ms).toUTCString()}`;
  }
  return date;
}
