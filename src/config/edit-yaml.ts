/** Adds entries to a YAML file and leaves everything else as it is, with its comments and its layout. */
import {
  isCollection,
  isMap,
  isPair,
  isScalar,
  parseDocument,
  type Document,
  type Node,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { isObject } from "../is-object.ts";

/**
 * Returns the text with one more entry. `path`: the keys of the mapping or list, from the top of the file; a missing one
 * is added at the end of the file. `entry`: one line of YAML, `key: value` or an item. `isItem`: true for a list.
 */
export function addEntry(
  text: string,
  path: readonly string[],
  entry: string,
  isItem: boolean,
): string {
  const document = parseDocument(text);
  const found = collectionAt(document, path);
  const marked = isItem ? `- ${entry}` : entry;
  if (found === undefined) {
    if (path.length > 1) throw new Error(`the file has no ${path.join(".")}`);
    const end = text.endsWith("\n") ? text : `${text}\n`;
    return `${end}${path[0]}:\n  ${marked}\n`;
  }
  if (found.flow === true) return addToFlow(text, found, entry);
  const last = found.items.at(-1);
  const first = found.items[0];
  const start = startOf(first);
  const end = endOf(last);
  if (start === undefined || end === undefined) throw new Error(`${path.join(".")} cannot be read`);
  // The range of an item of a list begins after its dash.
  const from = isItem ? text.lastIndexOf("-", start) : start;
  const indent = from - (text.lastIndexOf("\n", from - 1) + 1);
  const lineEnd = text[end - 1] === "\n" ? end : nextLine(text, end);
  const before = text.slice(0, lineEnd);
  const glue = before.endsWith("\n") ? "" : "\n";
  return `${before}${glue}${" ".repeat(indent)}${marked}\n${text.slice(lineEnd)}`;
}

/** Returns whether the mapping at the path has the key. */
export function hasKey(text: string, path: readonly string[], key: string): boolean {
  return parseDocument(text).hasIn([...path, key]);
}

/** Returns the value at the path, or undefined if there is none. */
export function valueAt(text: string, path: readonly string[]): unknown {
  const value: unknown = parseDocument(text).toJS();
  return path.reduce<unknown>((found, key) => (isObject(found) ? found[key] : undefined), value);
}

function collectionAt(document: Document, path: readonly string[]): YAMLMap | YAMLSeq | undefined {
  const node: unknown = document.getIn(path, true);
  return isCollection(node) ? node : undefined;
}

function addToFlow(text: string, found: YAMLMap | YAMLSeq, entry: string): string {
  const last = endOf(found.items.at(-1));
  const open = (found.range?.[0] ?? 0) + 1;
  if (last === undefined) {
    const inner = isMap(found) ? ` ${entry} ` : entry;
    return `${text.slice(0, open)}${inner}${text.slice(open).trimStart()}`;
  }
  return `${text.slice(0, last)}, ${entry}${text.slice(last)}`;
}

function startOf(item: unknown): number | undefined {
  return (isPair(item) ? (item.key as Node) : (item as Node | undefined))?.range?.[0];
}

/** Returns the end of the value, before the comment that may follow it. */
function endOf(item: unknown): number | undefined {
  if (!isPair(item)) return (item as Node | undefined)?.range?.[1];
  const value = item.value as Node | null;
  const isEmpty = value === null || (isScalar(value) && value.value === null && !value.source);
  return isEmpty ? (item.key as Node).range?.[1] : value.range?.[1];
}

function nextLine(text: string, from: number): number {
  const at = text.indexOf("\n", from);
  return at === -1 ? text.length : at + 1;
}
