/** Checks at run time that the export of a module is a plugin, because third parties may write JavaScript. */
import { permissionProblems } from "../../contract/permissions.ts";
import { isContractRange } from "../../contract/version.ts";
import { isObject } from "../../base/is-object.ts";
import type { Phase, Plugin } from "../../plugin.ts";

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
  "contract",
  "description",
  "options",
  "needs",
  "wants",
  "provides",
  "uses",
  "usesIfInstalled",
  "permissions",
  "needsOneThread",
  "check",
  "start",
];
const membersOf: Readonly<Record<Plugin["kind"], readonly string[]>> = {
  step: [...members, "operation"],
  surface: [...members, "operation", "websocket"],
  tools: members,
  service: [...members, "dryRun", "runsOnce", "update"],
};
const kinds = Object.keys(membersOf);

/** Empty if the plugin is valid. */
export function pluginProblems(value: unknown): string[] {
  if (!isObject(value)) return ["the default export must be an object"];
  const { kind, name, contract, description, start, options, websocket } = value;
  const problems: string[] = [];
  if (!isKind(kind)) {
    return [
      `\`kind\` must be one of ${kinds.join(", ")} (defineStep, defineSurface, defineTools and defineService set it)`,
    ];
  }
  if (typeof name !== "string" || !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    problems.push("`name` must be a string in kebab case");
  }
  if (contract !== undefined && !isContractRange(contract)) {
    problems.push('`contract` must be a range of versions, such as "^1"');
  }
  if (typeof description !== "string" || description === "")
    problems.push("`description` must be a non-empty string");
  if (typeof start !== "function") problems.push("`start` must be a function");
  for (const member of ["check", "operation", "dryRun", "update"]) {
    const isFunction = typeof value[member] === "function";
    if (value[member] !== undefined && !isFunction) {
      problems.push(`\`${member}\` must be a function`);
    }
  }
  if (websocket !== undefined && typeof websocket !== "boolean")
    problems.push("`websocket` must be a boolean");
  for (const member of ["uses", "usesIfInstalled"]) {
    const names = value[member];
    const isNames = Array.isArray(names) && names.every((each) => typeof each === "string");
    if (names !== undefined && !isNames) {
      problems.push(`\`${member}\` must be a list of service names`);
    }
  }
  problems.push(...permissionProblems(value["permissions"]), ...optionsProblems(options));
  for (const member of ["needs", "wants", "provides"]) {
    problems.push(...slotProblems(member, value[member], phasesOf[kind]));
  }
  const unknown = Object.keys(value).filter((key) => !membersOf[kind].includes(key));
  if (unknown.length > 0) problems.push(`unknown members in the manifest: ${unknown.join(", ")}`);
  return problems;
}

function isKind(kind: unknown): kind is Plugin["kind"] {
  return typeof kind === "string" && kinds.includes(kind);
}

function optionsProblems(options: unknown): string[] {
  if (options === undefined) return [];
  if (!isObject(options) || options["type"] !== "object") {
    return ['`options` must be a JSON Schema with `type: "object"`'];
  }
  // Without it, a misspelled option would be ignored.
  const isOpen = !("additionalProperties" in options || "unevaluatedProperties" in options);
  return isOpen ? ["`options` must have `additionalProperties: false`"] : [];
}

function slotProblems(member: string, slots: unknown, phases: readonly string[]): string[] {
  if (slots === undefined) return [];
  if (!isObject(slots)) return [`\`${member}\` must be an object that maps slots to phases`];
  const expected = phases.length === 0 ? "no slots" : `one of ${phases.join(", ")}`;
  return Object.entries(slots).flatMap(([slot, phase]) =>
    typeof phase === "string" && phases.includes(phase)
      ? []
      : [
          `unknown phase ${JSON.stringify(phase)} for "${slot}" in \`${member}\`: expected ${expected}`,
        ],
  );
}
