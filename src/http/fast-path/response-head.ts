import { STATUS_CODES, validateHeaderName, validateHeaderValue } from "node:http";

/** How the body ends: by its length or by the last chunk. `none`: there is no body, and written bytes are dropped. */
export type BodyFraming = "sized" | "chunked" | "none";

export interface ResponseHeadText {
  readonly text: string;
  readonly framing: BodyFraming;
  readonly keepsAlive: boolean;
}

/**
 * `keepAliveSeconds`: undefined to close the connection. Throws the errors of node:http for an invalid status or field.
 */
export function responseHead(
  status: number,
  fields: readonly string[],
  keepAliveSeconds: number | undefined,
): ResponseHeadText {
  if (!Number.isInteger(status) || status < 100 || status > 999) {
    throw new RangeError(`invalid status code: ${status}`);
  }
  // Each piece starts with the end of the previous line, so that the constant part of a line is one piece.
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}`;
  let hasDate = false;
  let hasLength = false;
  let connection: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    // The framing is decided below.
    if (name.length === 17 && name.toLowerCase() === "transfer-encoding") continue;
    validateHeaderValue(name, value);
    text = text + linePrefix(name) + value;
    // Compares lengths first, because most names differ in length.
    if (name.length === 14) hasLength ||= name.toLowerCase() === "content-length";
    else if (name.length === 4) hasDate ||= name.toLowerCase() === "date";
    else if (name.length === 10 && name.toLowerCase() === "connection") connection = value;
  }
  const keepsAlive = keepAliveSeconds !== undefined && !/\bclose\b/i.test(connection ?? "");
  if (!hasDate) text += dateLine();
  if (connection === undefined) text += keepsAlive ? keepAliveLines(keepAliveSeconds) : closing;
  // Bytes after such a head would be read as the next answer (RFC 9110 section 6.4.1).
  const isBodiless = status < 200 || status === 204 || status === 304;
  const framing = isBodiless ? "none" : hasLength ? "sized" : "chunked";
  text += framing === "chunked" ? "\r\nTransfer-Encoding: chunked\r\n\r\n" : "\r\n\r\n";
  return { text, framing, keepsAlive };
}

const closing = "\r\nConnection: close";

/** The start of a line by its name. Answers use few different names, which are repeated in every answer. */
const linePrefixes = new Map<string, string>();
const maxLinePrefixes = 1_000;

function linePrefix(name: string): string {
  const known = linePrefixes.get(name);
  if (known !== undefined) return known;
  validateHeaderName(name);
  const text = `\r\n${name}: `;
  if (linePrefixes.size < maxLinePrefixes) linePrefixes.set(name, text);
  return text;
}

let keepAliveText = "";
let keepAliveTextSeconds = -1;

/** Caches one text, because a process has one listener with one keep-alive time. */
function keepAliveLines(seconds: number): string {
  if (seconds !== keepAliveTextSeconds) {
    keepAliveTextSeconds = seconds;
    keepAliveText = `\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${seconds}`;
  }
  return keepAliveText;
}

let date = "";
let dateSecond = 0;

/** Returns the Date line in the format of RFC 9110 section 5.6.7, which is created once per second. */
function dateLine(): string {
  const ms = Date.now();
  const second = Math.floor(ms / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    date = `\r\nDate: ${new Date(ms).toUTCString()}`;
  }
  return date;
}
