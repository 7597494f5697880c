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
import { expandText, type Environment } from "./environment.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import type { Located, LocatedEntry, LocatedScalar } from "./located.ts";

/** Far above any real file. Nested aliases can expand a small file without bound. */
const maxNodes = 50_000;

interface ReadState {
  readonly document: Document;
  readonly env: Environment;
  readonly faults: Fault[];
  readonly position: (offset: number) => Position;
  /** Collections that enclose the current node. An alias to one of them would be an endless recursion. */
  readonly around: Set<Node>;
  nodes: number;
}

/** `root` is undefined if the YAML is empty or has errors that prevent further reading. */
export function readYaml(
  text: string,
  file: string,
  env: Environment,
): { root: Located | undefined; faults: Fault[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, version: "1.2" });
  const position = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(line, 1), col: Math.max(col, 1) };
  };
  const problems = withoutFollowUpErrors([...document.errors, ...document.warnings]);
  const faults = problems.map((problem) => yamlFault(problem, text, position));
  const readable = document.errors.every((error) => error.code === "DUPLICATE_KEY");
  if (!readable || document.contents === null) return { root: undefined, faults };
  const state: ReadState = { document, env, faults, position, around: new Set(), nodes: 0 };
  const root = locateNode(document.contents, state);
  return { root: state.nodes > maxNodes ? undefined : root, faults };
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

function positionOfNode(node: Node, state: ReadState): Position {
  return state.position(node.range?.[0] ?? 0);
}

function scalar(at: Position, value: LocatedScalar["value"], broken = false): LocatedScalar {
  return { kind: "scalar", at, value, source: String(value), expanded: false, broken };
}

function locateNode(node: Node, state: ReadState): Located {
  const at = positionOfNode(node, state);
  state.nodes++;
  if (state.nodes > maxNodes) {
    if (state.nodes === maxNodes + 1) {
      state.faults.push(
        fault("SLUICE_YAML_ALIAS", `the aliases expand to more than ${maxNodes} values`, { at }),
      );
    }
    return scalar(at, null, true);
  }
  if (isAlias(node)) return locateAlias(node.source, node.resolve(state.document), at, state);
  if (isMap(node)) return locateMap(node, at, state);
  if (isSeq(node)) {
    state.around.add(node);
    const items = node.items
      .filter((item) => isNodeLike(item))
      .map((item) => locateNode(item, state))
      .filter((item) => !isNothing(item));
    state.around.delete(node);
    return { kind: "list", at, items };
  }
  return isScalar(node) ? locateScalar(node.value, node.source, at, state) : scalar(at, null);
}

function isNodeLike(value: unknown): value is Node {
  return isAlias(value) || isMap(value) || isSeq(value) || isScalar(value);
}

function locateAlias(
  name: string,
  target: Node | undefined,
  at: Position,
  state: ReadState,
): Located {
  if (target === undefined || state.around.has(target)) {
    const message =
      target === undefined
        ? `unknown alias *${name}: no anchor &${name} above`
        : `the alias *${name} is inside its own anchor`;
    state.faults.push(fault("SLUICE_YAML_ALIAS", message, { at }));
    return scalar(at, null, true);
  }
  return { ...locateNode(target, state), at };
}

function locateMap(node: YAMLMap, at: Position, state: ReadState): Located {
  state.around.add(node);
  const entries = new Map<string, LocatedEntry>();
  for (const pair of node.items) {
    if (!isPair(pair) || !isNodeLike(pair.key)) continue;
    const keyAt = positionOfNode(pair.key, state);
    const key = isScalar(pair.key) ? keyText(pair.key.value, pair.key.source) : undefined;
    if (key === undefined) {
      state.faults.push(
        fault("SLUICE_YAML_KEY", "a key must be a plain word or a quoted string", { at: keyAt }),
      );
      continue;
    }
    const value = isNodeLike(pair.value) ? locateNode(pair.value, state) : scalar(keyAt, null);
    if (!entries.has(key) && !isNothing(value)) entries.set(key, { keyAt, value });
  }
  state.around.delete(node);
  return { kind: "map", at, entries };
}

function keyText(value: unknown, source: string | undefined): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? source : undefined;
}

function locateScalar(
  value: unknown,
  source: string | undefined,
  at: Position,
  state: ReadState,
): LocatedScalar {
  if (typeof value === "string") {
    const { text, expanded, defaulted, faults } = expandText(value, state.env, at);
    state.faults.push(...faults);
    const broken = faults.length > 0;
    return { kind: "scalar", at, value: text, source: text, expanded, defaulted, broken };
  }
  if (typeof value === "number" || typeof value === "boolean") {
    return { ...scalar(at, value), source: source ?? String(value) };
  }
  return scalar(at, null);
}

/** A value that expands to nothing counts as missing: `redis: ${REDIS_URL:-}` does not set `redis`. */
function isNothing(node: Located): boolean {
  return node.kind === "scalar" && node.expanded && !node.broken && node.value === "";
}
