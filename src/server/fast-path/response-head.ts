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
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`;
  let hasDate = false;
  let hasLength = false;
  let connection: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    // How the body goes is decided here.
    if (name.length === 17 && name.toLowerCase() === "transfer-encoding") continue;
    checkName(name);
    validateHeaderValue(name, value);
    text += `${name}: ${value}\r\n`;
    // Lengths first: most names differ there.
    if (name.length === 14) hasLength ||= name.toLowerCase() === "content-length";
    else if (name.length === 4) hasDate ||= name.toLowerCase() === "date";
    else if (name.length === 10 && name.toLowerCase() === "connection") connection = value;
  }
  if (!hasDate) text += `Date: ${now()}\r\n`;
  const keepsAlive = keepAliveSeconds !== undefined && !/\bclose\b/i.test(connection ?? "");
  if (connection === undefined) {
    text += keepsAlive
      ? `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveSeconds}\r\n`
      : "Connection: close\r\n";
  }
  // What followed such a head would be read as the next answer (RFC 9110 section 6.4.1).
  const isBodiless = status < 200 || status === 204 || status === 304;
  const framing = isBodiless ? "none" : hasLength ? "sized" : "chunked";
  if (framing === "chunked") text += "Transfer-Encoding: chunked\r\n";
  return { text: `${text}\r\n`, framing, keepsAlive };
}

/** Names that were found good: there are few, and they come again with every answer. */
const goodNames = new Set<string>();
const goodNamesMax = 1_000;

function checkName(name: string): void {
  if (goodNames.has(name)) return;
  validateHeaderName(name);
  if (goodNames.size < goodNamesMax) goodNames.add(name);
}

let date = "";
let dateSecond = 0;

/** The time as RFC 9110 section 5.6.7 writes it, made once a second. */
function now(): string {
  const ms = Date.now();
  const second = Math.floor(ms / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    date = new Date(ms).toUTCString();
  }
  return date;
}
