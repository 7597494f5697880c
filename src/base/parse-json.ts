/**
 * JSON.parse for text from clients and backends. It limits the cost of parsing (json-bounds.ts) and corrects names that
 * V8 misreads.
 *
 * V8 14.6 (Node 26) can read a member name that is written with an escape as a name that contains a backslash, if an
 * earlier object had such a name in the same position. After `{"b":1,"\\":1}` from one client, `{"b":1,"\u0063":1}`
 * from another client has no member `c`. In this case the text is parsed again with all unnecessary escapes removed
 * from its names.
 */
import { isContainer } from "./is-object.ts";
import { jsonExcess } from "./json-bounds.ts";
import { spaceEnd, stringEnd } from "./json-text.ts";

/** Throws SyntaxError like JSON.parse, and also for a text that exceeds the limits of json-bounds.ts. */
export function parseJson(text: string): unknown {
  if (jsonExcess(text) !== undefined) throw new SyntaxError("the JSON text exceeds its bounds");
  return parseBoundedJson(text);
}

/** Like `parseJson`, but returns undefined where that throws. */
export function parseOrUndefined(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** `source`: the text of a number, string, boolean or null. */
export type Reviver = (
  name: string,
  value: unknown,
  context: { readonly source?: string },
) => unknown;

/** TypeScript does not know the third argument of a reviver yet. */
const parse = JSON.parse as (text: string, reviver?: Reviver) => unknown;

/** Parses JSON text that `jsonExcess` has found to be within the limits. Throws SyntaxError like JSON.parse. */
export function parseBoundedJson(text: string, reviver?: Reviver): unknown {
  const value = parse(text, reviver);
  if (!text.includes("\\") || !namesBackslash(value)) return value;
  const plain = withPlainNames(text);
  return plain === text ? value : parse(plain, reviver);
}

/** Returns true if any object in `value`, at any depth, has a name with a backslash. Every misread name has one. */
function namesBackslash(value: unknown): boolean {
  const waiting: object[] = [];
  const add = (one: unknown): void => {
    if (isContainer(one)) waiting.push(one);
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
    end = stringEnd(text, at);
    const string = text.slice(at, end);
    // JSON.stringify writes all other escapes, too.
    if (!string.includes("\\u") && !string.includes("\\/")) continue;
    if (!isName(text, end)) continue;
    plain += text.slice(copied, at) + JSON.stringify(JSON.parse(string));
    copied = end;
  }
  return plain + text.slice(copied);
}

function isName(text: string, end: number): boolean {
  return text[spaceEnd(text, end)] === ":";
}
