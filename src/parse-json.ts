/**
 * JSON.parse for text from clients and backends: it bounds what a text may cost (json-bounds.ts) and corrects names that
 * V8 misreads. V8 14.6 (Node 26) takes a member name written with an escape for a name that holds a backslash, where an
 * object before it had that one in its place: after `{"b":1,"\\":1}` from one client, `{"b":1,"\u0063":1}` from another
 * has no `c`. Then names are read again, without the escapes that they do not need.
 */
import { jsonExcess } from "./json-bounds.ts";

const quote = 0x22;
const backslash = 0x5c;

/**
 * Parses JSON text. Throws SyntaxError, as JSON.parse does, and also for a text with more than 65,536 members and elements
 * or more than 128 levels.
 */
export function parseJson(text: string): unknown {
  if (jsonExcess(text) !== undefined) throw new SyntaxError("the JSON text exceeds its bounds");
  return parseBoundedJson(text);
}

/** Parses JSON text in which `jsonExcess` has found nothing. Throws SyntaxError, as JSON.parse does. */
export function parseBoundedJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!text.includes("\\") || !namesBackslash(value)) return value;
  const plain = withPlainNames(text);
  return plain === text ? value : JSON.parse(plain);
}

/** Whether any object in it has a name with a backslash, as every name that was misread. However deep it is nested. */
function namesBackslash(value: unknown): boolean {
  const waiting: object[] = [];
  const add = (one: unknown): void => {
    if (typeof one === "object" && one !== null) waiting.push(one);
  };
  add(value);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (Array.isArray(next)) for (const item of next) add(item);
    else if (Object.keys(next).some((name) => name.includes("\\"))) return true;
    else for (const member of Object.values(next)) add(member);
  }
  return false;
}

/** Returns JSON text with each name written as JSON.stringify writes it, without escapes that it does not need. */
function withPlainNames(text: string): string {
  let plain = "";
  let copied = 0;
  let end = 0;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', end)) {
    end = endOfString(text, at);
    const string = text.slice(at, end);
    // The other escapes are those that JSON.stringify writes, too.
    if (!string.includes("\\u") && !string.includes("\\/")) continue;
    if (!isName(text, end)) continue;
    plain += text.slice(copied, at) + JSON.stringify(JSON.parse(string));
    copied = end;
  }
  return plain + text.slice(copied);
}

/** The index behind the closing quote of the string that starts at `at`. */
function endOfString(text: string, at: number): number {
  let end = at + 1;
  for (let unit = text.charCodeAt(end); unit !== quote; unit = text.charCodeAt(end)) {
    end += unit === backslash ? 2 : 1;
  }
  return end + 1;
}

/** Whether a colon follows. */
function isName(text: string, end: number): boolean {
  let at = end;
  while (text.charCodeAt(at) <= 0x20) at++;
  return text[at] === ":";
}
