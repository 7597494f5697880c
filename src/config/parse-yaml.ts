/**
 * Parses YAML 1.2 into a tree that depends on the text alone: environment variables are not expanded. The tree is plain
 * JSON, so that a start can keep it (src/config/read.ts).
 */
import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Document,
  type Node,
  type YAMLError,
  type YAMLMap,
} from "yaml";
import type { SluiceCode } from "../base/errors.ts";
import { fault, type Fault, type Position } from "./fault.ts";

/** Far above any real file. Nested aliases can expand a small file without bound. */
const maxNodes = 50_000;

/** Counted from 1. */
export interface YamlPlace {
  readonly line: number;
  readonly col: number;
}

export interface YamlScalar extends YamlPlace {
  readonly value: string | number | boolean | null;
  /** The text of a number or boolean in the file. */
  readonly source?: string;
  /** A fault of this value has been reported. */
  readonly isBroken?: true;
}

export interface YamlList extends YamlPlace {
  readonly items: readonly YamlTree[];
}

export interface YamlMap extends YamlPlace {
  /** In the order of the file. A key can occur twice, which is a fault. */
  readonly entries: readonly (readonly [key: string, at: YamlPlace, value: YamlTree])[];
}

export type YamlTree = YamlScalar | YamlList | YamlMap;

export interface ParsedYaml {
  /** Undefined if the YAML is empty or has errors that prevent further reading. */
  readonly tree: YamlTree | undefined;
  readonly faults: readonly Fault[];
}

interface ParseState {
  readonly document: Document;
  readonly faults: Fault[];
  readonly place: (offset: number) => YamlPlace;
  readonly file: string;
  /** Collections that enclose the current node. An alias to one of them would be an endless recursion. */
  readonly around: Set<Node>;
  nodes: number;
}

/** `file`: for the positions of faults. */
export function parseYaml(text: string, file: string): ParsedYaml {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, version: "1.2" });
  const place = (offset: number): YamlPlace => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), col: Math.max(col, 1) };
  };
  const position = (offset: number): Position => ({ file, ...place(offset) });
  const problems = withoutFollowUpErrors([...document.errors, ...document.warnings]);
  const faults = problems.map((problem) => yamlFault(problem, text, position));
  const readable = document.errors.every((error) => error.code === "DUPLICATE_KEY");
  if (!readable || document.contents === null) return { tree: undefined, faults };
  const state: ParseState = { document, faults, place, file, around: new Set(), nodes: 0 };
  const tree = treeOf(document.contents, state);
  return { tree: state.nodes > maxNodes ? undefined : tree, faults };
}

const yamlCodes: Partial<Record<YAMLError["code"], SluiceCode>> = {
  TAB_AS_INDENT: "SLUICE_YAML_TAB",
  DUPLICATE_KEY: "SLUICE_YAML_DUPLICATE_KEY",
  BAD_ALIAS: "SLUICE_YAML_ALIAS",
  TAG_RESOLVE_FAILED: "SLUICE_YAML_TAG",
  MULTIPLE_DOCS: "SLUICE_YAML_DOCUMENTS",
};

/** After the first syntax error, the parser reports each token that follows. */
function withoutFollowUpErrors(problems: readonly YAMLError[]): YAMLError[] {
  const first = problems.findIndex((problem) => yamlCodes[problem.code] === undefined);
  return problems.filter((problem, index) => index <= first || problem.code !== "UNEXPECTED_TOKEN");
}

function yamlFault(
  problem: YAMLError,
  text: string,
  position: (offset: number) => Position,
): Fault {
  const [from, to] = problem.pos;
  const at = position(from);
  if (text.startsWith("${", from - 1)) {
    const message = '"${…}" must be in quotes inside { } and [ ]';
    return fault("SLUICE_ENV_UNQUOTED", message, { at: position(from - 1) });
  }
  const code = yamlCodes[problem.code] ?? "SLUICE_YAML_SYNTAX";
  if (code === "SLUICE_YAML_DUPLICATE_KEY") {
    const key = /^[^:\n]*/.exec(text.slice(from, Math.max(to, from + 64)))?.[0] ?? "";
    return fault(code, `duplicate key ${key.trim()}`, { at });
  }
  if (code === "SLUICE_YAML_DOCUMENTS") {
    return fault(code, "the file contains more than one document", { at });
  }
  const [message = ""] = problem.message.split("\n");
  return fault(code, message, { at });
}

function placeOf(node: Node, { place }: ParseState): YamlPlace {
  return place(node.range?.[0] ?? 0);
}

function broken(
  code: SluiceCode,
  message: string,
  at: YamlPlace,
  { faults, file }: ParseState,
): YamlScalar {
  faults.push(fault(code, message, { at: { file, ...at } }));
  return { ...at, value: null, isBroken: true };
}

function treeOf(node: Node, state: ParseState): YamlTree {
  const at = placeOf(node, state);
  state.nodes++;
  if (state.nodes === maxNodes + 1) {
    const message = `the file has more than ${maxNodes} values, with those that aliases repeat`;
    return broken("SLUICE_YAML_ALIAS", message, at, state);
  }
  if (state.nodes > maxNodes) return { ...at, value: null, isBroken: true };
  if (isAlias(node)) return targetOf(node.source, node.resolve(state.document), at, state);
  if (isMap(node)) return mapOf(node, at, state);
  if (isSeq(node)) {
    state.around.add(node);
    const items = node.items.filter(isNodeLike).map((item) => treeOf(item, state));
    state.around.delete(node);
    return { ...at, items };
  }
  return { ...at, ...(isScalar(node) ? scalarOf(node.value, node.source) : { value: null }) };
}

function isNodeLike(value: unknown): value is Node {
  return isAlias(value) || isMap(value) || isSeq(value) || isScalar(value);
}

function targetOf(
  name: string,
  target: Node | undefined,
  at: YamlPlace,
  state: ParseState,
): YamlTree {
  if (target === undefined || state.around.has(target)) {
    const message =
      target === undefined
        ? `unknown alias *${name}: no anchor &${name} above`
        : `the alias *${name} is inside its own anchor`;
    return broken("SLUICE_YAML_ALIAS", message, at, state);
  }
  return { ...treeOf(target, state), ...at };
}

function mapOf(node: YAMLMap, at: YamlPlace, state: ParseState): YamlMap {
  state.around.add(node);
  const entries: [string, YamlPlace, YamlTree][] = [];
  for (const pair of node.items) {
    if (!isPair(pair) || !isNodeLike(pair.key)) continue;
    const keyAt = placeOf(pair.key, state);
    const key = isScalar(pair.key) ? keyText(pair.key.value, pair.key.source) : undefined;
    if (key === undefined) {
      broken("SLUICE_YAML_KEY", "a key must be a plain word or a quoted string", keyAt, state);
      continue;
    }
    const value = isNodeLike(pair.value) ? treeOf(pair.value, state) : { ...keyAt, value: null };
    entries.push([key, keyAt, value]);
  }
  state.around.delete(node);
  return { ...at, entries };
}

function keyText(value: unknown, source: string | undefined): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? source : undefined;
}

function scalarOf(
  value: unknown,
  source: string | undefined,
): Pick<YamlScalar, "value" | "source"> {
  if (typeof value === "string") return { value };
  if (typeof value === "number" || typeof value === "boolean") {
    return { value, source: source ?? String(value) };
  }
  return { value: null };
}
