/** Checks at run time what `start` of a plugin returns, because third parties may write JavaScript. */
import { nearest } from "../../config/nearest.ts";
import { isObject } from "../../base/is-object.ts";
import type { Plugin, ServiceHooks, StepHooks, SurfaceHooks } from "../../plugin.ts";

/** The types of the members of hooks. `any`: a value that only the plugins know. */
type TypesOf<Hooks> = Readonly<Record<keyof Hooks, string>>;

const stepTypes: TypesOf<StepHooks> = {
  createState: "function",
  requestHeaders: "function",
  requestBody: "function",
  bodyBytes: "number",
  tooLargeStatus: "number",
  json: "boolean",
  around: "function",
  message: "function",
  responseHeaders: "function",
  responseChunk: "function",
  responseFlush: "function",
  responseEnd: "function",
  settled: "function",
  stop: "function",
};
const surfaceTypes: TypesOf<SurfaceHooks> = {
  body: "object",
  atomic: "boolean",
  answer: "function",
  renderRefusal: "function",
  stop: "function",
};
const serviceTypes: TypesOf<ServiceHooks<unknown>> = {
  service: "any",
  initialized: "function",
  ready: "function",
  backends: "function",
  admin: "function",
  stop: "function",
};
const typesOf: Readonly<
  Record<Exclude<Plugin["kind"], "tools">, Readonly<Record<string, string>>>
> = { step: stepTypes, surface: surfaceTypes, service: serviceTypes };

/**
 * A misspelled hook is never called, so a step whose only check is in it would let everything pass. The members of
 * `tools` plugins are checked by the service that reads them.
 */
export function hookProblems(kind: Plugin["kind"], hooks: unknown): string[] {
  if (!isObject(hooks)) return ["`start` must return an object with hooks"];
  if (kind === "tools") return [];
  const types = typesOf[kind];
  const known = Object.keys(types);
  const problems = unknownHooks(hooks, known).map((name) => {
    const close = nearest(name, known);
    const hint = close === undefined ? `expected ${known.join(", ")}` : `did you mean "${close}"?`;
    return `\`start\` returned the unknown hook "${name}"; ${hint}`;
  });
  for (const [name, type] of Object.entries(types)) {
    const member = hooks[name];
    if (type === "any" || member === undefined || typeof member === type) continue;
    problems.push(`the hook \`${name}\` must be a ${type}, got ${typeof member}`);
  }
  if (kind === "surface" && hooks["answer"] === undefined) {
    problems.push("a surface must have the hook `answer`");
  }
  return problems;
}

/**
 * An instance of a class also has members of its own use, so only those are reported that look like a misspelled hook.
 */
function unknownHooks(hooks: object, known: readonly string[]): string[] {
  const prototype: unknown = Object.getPrototypeOf(hooks);
  const isPlain = prototype === Object.prototype || prototype === null;
  const members = isPlain ? Object.keys(hooks) : [...membersOf(hooks)];
  return members.filter(
    (name) => !known.includes(name) && (isPlain || nearest(name, known) !== undefined),
  );
}

function membersOf(hooks: object): Set<string> {
  const names = new Set<string>();
  for (
    let at: unknown = hooks;
    isObject(at) && at !== Object.prototype;
    at = Object.getPrototypeOf(at)
  ) {
    for (const name of Object.getOwnPropertyNames(at)) names.add(name);
  }
  return names;
}
