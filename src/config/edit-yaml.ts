/** Adds entries to a YAML file and leaves everything else as it is, with its comments and its layout. */
import { isDeepStrictEqual } from "node:util";
import {
  isCollection,
  isMap,
  isPair,
  isScalar,
  parseDocument,
  type Document,
  type Node,
  type Pair,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { isObject } from "../base/is-object.ts";

/**
 * `path`: the keys of the mapping or list, from the top of the file; a missing one is added at the end of the file if
 * it is a key at the top. `entry`: one line of YAML, `key: value` or an item. `isItem`: true for a list.
 *
 * Throws an Error if such a mapping or list is missing, or if it is written in a way that cannot be extended.
 */
export function addEntry(
  text: string,
  path: readonly string[],
  entry: string,
  isItem: boolean,
): string {
  const document = parseDocument(text);
  const name = path.join(".");
  if (document.errors.length > 0) throw new Error("the file is not valid YAML");
  if (path.length > 1 && !document.hasIn(path)) throw new Error(`the file has no ${name}`);
  const marked = isItem ? `- ${entry}` : entry;
  const result = textWith(text, document, path, { entry, marked });
  // The gateway runs the code that the file names, so the result must be exactly what was asked for.
  if (result !== undefined && isExtended(text, result, path, marked)) return result;
  throw new Error(`${name} cannot be extended as it is written; add \`${marked}\` to it yourself`);
}

export function yamlError(text: string): string | undefined {
  return parseDocument(text).errors[0]?.message.split("\n")[0];
}

export function hasKey(text: string, path: readonly string[], key: string): boolean {
  return parseDocument(text).hasIn([...path, key]);
}

/** Returns undefined without a value at the path. */
export function valueAt(text: string, path: readonly string[]): unknown {
  const value: unknown = parseDocument(text).toJS();
  return path.reduce<unknown>((found, key) => (isObject(found) ? found[key] : undefined), value);
}

/** Returns undefined if the place of the entry cannot be found. */
function textWith(
  text: string,
  document: Document,
  path: readonly string[],
  { entry, marked }: { readonly entry: string; readonly marked: string },
): string | undefined {
  const newline = text.includes("\r\n") ? "\r\n" : "\n";
  const found: unknown = document.getIn(path, true);
  if (isCollection(found) && found.flow === true) return addToFlow(text, found, entry);
  if (isCollection(found)) {
    const start = found.range?.[0];
    const end = endOf(found.items.at(-1));
    if (start === undefined || end === undefined) return undefined;
    const indent = start - (text.lastIndexOf("\n", start - 1) + 1);
    return insertAfterLine(text, end, `${" ".repeat(indent)}${marked}${newline}`, newline);
  }
  const pair = pairAt(document, path);
  if (pair === undefined) {
    if (document.hasIn(path)) return undefined;
    const end = text === "" || text.endsWith("\n") ? text : text + newline;
    return `${end}${path[0]}:${newline}  ${marked}${newline}`;
  }
  // A key without a value: the entry becomes the first one.
  const [start, end] = (pair.key as Node).range ?? [0, 0];
  const indent = start - (text.lastIndexOf("\n", start - 1) + 1) + 2;
  return insertAfterLine(text, end, `${" ".repeat(indent)}${marked}${newline}`, newline);
}

function pairAt(document: Document, path: readonly string[]): Pair | undefined {
  const parent: unknown =
    path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return undefined;
  const pair = parent.items.find(({ key }) => isScalar(key) && key.value === path.at(-1));
  return pair !== undefined && isEmpty(pair.value) ? pair : undefined;
}

function isExtended(
  before: string,
  after: string,
  path: readonly string[],
  marked: string,
): boolean {
  const document = parseDocument(after);
  if (document.errors.length > 0) return false;
  const added: unknown = parseDocument(marked).toJS();
  const expected: unknown = withValue(parseDocument(before).toJS(), path, added);
  return isDeepStrictEqual(document.toJS(), expected);
}

function withValue(value: unknown, path: readonly string[], added: unknown): unknown {
  const [key, ...rest] = path;
  if (key !== undefined) {
    const members = Object(value) as Readonly<Record<string, unknown>>;
    return { ...members, [key]: withValue(members[key], rest, added) };
  }
  if (Array.isArray(added)) return (Array.isArray(value) ? value : []).concat(added);
  return { ...Object(value), ...Object(added) };
}

function addToFlow(text: string, found: YAMLMap | YAMLSeq, entry: string): string | undefined {
  const open = (found.range?.[0] ?? 0) + 1;
  if (found.items.length === 0) {
    const inner = isMap(found) ? ` ${entry} ` : entry;
    return `${text.slice(0, open)}${inner}${text.slice(open).trimStart()}`;
  }
  const last = endOf(found.items.at(-1));
  return last === undefined ? undefined : `${text.slice(0, last)}, ${entry}${text.slice(last)}`;
}

/** Inserts after the line that contains the position, or after the last line if the position is at its end. */
function insertAfterLine(text: string, at: number, lines: string, newline: string): string {
  const next = text[at - 1] === "\n" ? at : nextLine(text, at);
  const before = text.slice(0, next);
  return `${before}${before.endsWith("\n") ? "" : newline}${lines}${text.slice(next)}`;
}

function endOf(item: unknown): number | undefined {
  if (!isPair(item)) return (item as Node | undefined)?.range?.[1];
  return (isEmpty(item.value) ? (item.key as Node) : (item.value as Node)).range?.[1];
}

function isEmpty(value: unknown): boolean {
  return value === null || (isScalar(value) && value.value === null && !value.source);
}

function nextLine(text: string, from: number): number {
  const at = text.indexOf("\n", from);
  return at === -1 ? text.length : at + 1;
}
