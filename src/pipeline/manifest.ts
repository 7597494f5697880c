/** Checks at run time that what a module exports is a plugin: third parties may write JavaScript. */
import type { Phase, Plugin } from "../plugin.ts";

const stepPhases: readonly Phase[] = [
  "requestHeaders",
  "requestBody",
  "responseHeaders",
  "responseChunk",
  "responseEnd",
  "settled",
];
const phasesOf: Readonly<Record<Plugin["kind"], readonly Phase[]>> = {
  step: stepPhases,
  surface: ["answer"],
  tools: [],
  service: [],
};
const members = [
  "kind",
  "name",
  "description",
  "options",
  "needs",
  "wants",
  "provides",
  "uses",
  "check",
  "start",
];
const membersOf: Readonly<Record<Plugin["kind"], readonly string[]>> = {
  step: [...members, "operation"],
  surface: [...members, "operation", "websocket"],
  tools: members,
  service: [...members, "dryRun"],
};
const kinds = Object.keys(membersOf);

/** What keeps `value` from being a plugin, one sentence each; empty when it is one. */
export function pluginProblems(value: unknown): string[] {
  if (!isRecord(value)) return ["its default export is no object"];
  const { kind, name, description, start, check, operation, options, websocket } = value;
  const { uses, dryRun } = value;
  const problems: string[] = [];
  if (!isKind(kind)) {
    return [
      `its \`kind\` is not one of ${kinds.join(", ")} (defineStep, defineSurface, defineTools and defineService set it)`,
    ];
  }
  if (typeof name !== "string" || !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    problems.push("its `name` is not in kebab case");
  }
  if (typeof description !== "string" || description === "")
    problems.push("it has no `description`");
  if (typeof start !== "function") problems.push("it has no `start` function");
  if (check !== undefined && typeof check !== "function")
    problems.push("its `check` is no function");
  if (operation !== undefined && typeof operation !== "function")
    problems.push("its `operation` is no function");
  if (websocket !== undefined && typeof websocket !== "boolean")
    problems.push("its `websocket` is no boolean");
  if (dryRun !== undefined && typeof dryRun !== "function")
    problems.push("its `dryRun` is not a function");
  const isNames = Array.isArray(uses) && uses.every((each) => typeof each === "string");
  if (uses !== undefined && !isNames) problems.push("its `uses` is not a list of service names");
  problems.push(...optionsProblems(options));
  for (const member of ["needs", "wants", "provides"]) {
    problems.push(...slotProblems(member, value[member], phasesOf[kind]));
  }
  const unknown = Object.keys(value).filter((key) => !membersOf[kind].includes(key));
  if (unknown.length > 0) problems.push(`its manifest has unknown members: ${unknown.join(", ")}`);
  return problems;
}

function isKind(kind: unknown): kind is Plugin["kind"] {
  return typeof kind === "string" && kinds.includes(kind);
}

function optionsProblems(options: unknown): string[] {
  if (options === undefined) return [];
  if (!isRecord(options) || options["type"] !== "object") {
    return ['its `options` are no JSON Schema of `type: "object"`'];
  }
  // Without it a mistyped option would be taken for none.
  const isOpen = !("additionalProperties" in options || "unevaluatedProperties" in options);
  return isOpen ? ["its `options` lack `additionalProperties: false`"] : [];
}

function slotProblems(member: string, slots: unknown, phases: readonly string[]): string[] {
  if (slots === undefined) return [];
  if (!isRecord(slots)) return [`its \`${member}\` is no mapping of slots to phases`];
  return Object.entries(slots).flatMap(([slot, phase]) =>
    typeof phase === "string" && phases.includes(phase)
      ? []
      : [`its \`${member}\` gives "${slot}" a phase that it has not (${phases.join(", ")})`],
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
