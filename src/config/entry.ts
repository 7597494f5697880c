import { defaultTimeoutMs, type Condition, type PluginUse, type StepUse } from "./config.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import type { SluiceCode } from "../base/errors.ts";
import type { JsonSchema } from "../plugin.ts";
import {
  find,
  plainValue,
  positionOf,
  type Located,
  type LocatedEntry,
  type LocatedMap,
} from "./located.ts";
import { methodFaults } from "./methods.ts";
import { nearest } from "./nearest.ts";
import { modeSchema, onErrorSchema, timeoutSchema, whenSchema } from "./schema-step.ts";
import { validate } from "./validate.ts";

/** The fault of an `unreadable` entry has been reported. */
export type Entry =
  | { readonly kind: "step"; readonly step: StepUse }
  | { readonly kind: "off"; readonly use: PluginUse }
  | { readonly kind: "use"; readonly list: string; readonly at: Position }
  | { readonly kind: "unreadable" };

export function readEntry(item: Located, faults: Fault[]): Entry {
  if (item.kind === "scalar" && item.broken) return { kind: "unreadable" };
  if (item.kind === "scalar" && typeof item.value === "string" && item.value !== "") {
    return {
      kind: "step",
      step: { ...pluginUse(item.value, item.at), ...unqualified },
    };
  }
  if (item.kind !== "map" || item.entries.size === 0) {
    const message = "expected a step name, `{ name: options }` or `{ use: list }`";
    faults.push(fault("SLUICE_STEP_FORM", message, { at: item.at }));
    return { kind: "unreadable" };
  }
  return item.entries.has("use") ? readUse(item, faults) : readStep(item, faults);
}

function readUse(item: LocatedMap, faults: Fault[]): Entry {
  const list = item.entries.get("use")?.value;
  const other = [...item.entries].find(([key]) => key !== "use");
  if (other !== undefined) {
    const message = `unexpected key "${other[0]}" next to "use"`;
    faults.push(fault("SLUICE_STEP_FORM", message, { at: other[1].keyAt }));
  }
  if (list?.kind !== "scalar" || typeof list.value !== "string" || list.broken) {
    if (list?.kind === "scalar" && list.broken) return { kind: "unreadable" };
    const message = "`use`: expected the name of one list";
    faults.push(fault("SLUICE_STEP_FORM", message, { at: list?.at ?? item.at }));
    return { kind: "unreadable" };
  }
  return { kind: "use", list: list.value, at: list.at };
}

const qualifiers = ["mode", "when", "timeoutMs", "onError"];
const unqualified = {
  mode: "enforce",
  when: undefined,
  timeoutMs: defaultTimeoutMs,
  onError: "refuse",
} as const;

function readStep(item: LocatedMap, faults: Fault[]): Entry {
  const use = readPlugin(item, qualifiers, faults);
  const mode = readMode(item, faults);
  const when = readWhen(item, faults);
  const timeoutMs = readTimeout(item, faults);
  const onError = readQualifier(item, "onError", onErrorSchema, faults);
  if (use === undefined) return { kind: "unreadable" };
  if (mode === "off") return { kind: "off", use };
  return {
    kind: "step",
    step: { ...use, mode, when, timeoutMs, onError: onError === "skip" ? "skip" : "refuse" },
  };
}

/** Reads the only key of a mapping that is not a qualifier, with its options. */
function readPlugin(
  item: LocatedMap,
  beside: readonly string[],
  faults: Fault[],
): PluginUse | undefined {
  const [first, ...more] = [...item.entries].filter(([key]) => !beside.includes(key));
  const isStep = beside.length > 0;
  const form = isStep ? "SLUICE_STEP_FORM" : "SLUICE_SURFACE_FORM";
  if (first === undefined) {
    faults.push(fault(form, "missing plugin name", { at: item.at }));
    return undefined;
  }
  for (const [key, { keyAt }] of more) {
    const message = `unexpected key "${key}" next to "${first[0]}": an entry names one plugin`;
    faults.push(fault(form, message, { at: keyAt, didYouMean: nearest(key, beside) }));
  }
  return readNamed(first[0], first[1], form, faults);
}

function readNamed(
  name: string,
  { keyAt, value }: LocatedEntry,
  form: SluiceCode,
  faults: Fault[],
): PluginUse {
  if (value.kind === "map") return pluginUse(name, keyAt, value);
  const isEmpty = value.kind === "scalar" && (value.value === null || value.broken);
  if (!isEmpty) {
    const message = `options of "${name}": expected a mapping`;
    faults.push(fault(form, message, { at: value.at }));
  }
  const isAbsent = value.kind === "scalar" && value.value === null && !value.broken;
  return isAbsent ? pluginUse(name, keyAt) : { ...pluginUse(name, keyAt), incomplete: true };
}

export function readSection(name: string, section: LocatedEntry, faults: Fault[]): PluginUse {
  return readNamed(name, section, "SLUICE_VALUE_TYPE", faults);
}

/** `source`: the mapping of its options. */
export function pluginUse(name: string, at: Position, source?: LocatedMap): PluginUse {
  if (source === undefined) return { name, at, options: {}, positionOf: () => at };
  return {
    name,
    at,
    source,
    // The plain value of a mapping is an object.
    options: plainValue(source) as Record<string, unknown>,
    positionOf: (pointer) => positionOf(source, pointer, at),
  };
}

/** Returns undefined if `to:` cannot be read. */
export function readSurface(node: Located | undefined, faults: Fault[]): PluginUse | undefined {
  if (node === undefined || (node.kind === "scalar" && node.broken)) return undefined;
  if (node.kind === "map") return readPlugin(node, [], faults);
  // A value that is not a string has been reported as a value of the wrong type.
  return node.kind === "scalar" && typeof node.value === "string"
    ? pluginUse(node.value, node.at)
    : undefined;
}

function readQualifier(
  item: LocatedMap,
  name: string,
  schema: JsonSchema,
  faults: Fault[],
): unknown {
  const node = item.entries.get(name)?.value;
  if (node === undefined) return undefined;
  const { faults: found, value } = validate(node, schema, { label: name });
  faults.push(...found);
  return found.length === 0 ? value : undefined;
}

function readMode(item: LocatedMap, faults: Fault[]): "enforce" | "shadow" | "off" {
  const mode = readQualifier(item, "mode", modeSchema, faults);
  return mode === "shadow" || mode === "off" ? mode : "enforce";
}

function readTimeout(item: LocatedMap, faults: Fault[]): number {
  const limit = readQualifier(item, "timeoutMs", timeoutSchema, faults);
  return typeof limit === "number" ? limit : defaultTimeoutMs;
}

function readWhen(item: LocatedMap, faults: Fault[]): Condition | undefined {
  const value = readQualifier(item, "when", whenSchema, faults);
  if (value === undefined) return undefined;
  // The value was validated against `whenSchema` above.
  const { path, methods, header } = value as Condition;
  faults.push(...methodFaults(find(item, "/when/methods")));
  return {
    ...(path !== undefined && { path }),
    ...(methods !== undefined && {
      methods: methods.includes("GET") ? [...methods, "HEAD"] : methods,
    }),
    ...(header !== undefined && { header: lowerCaseKeys(header) }),
  };
}

function lowerCaseKeys(header: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(header).map(([name, value]) => [name.toLowerCase(), value]),
  );
}
