/**
 * The order proof: that whenever a hook runs, every slot that it needs has been set, on every path that an exchange can
 * take through a route. Works on manifests alone; no plugin runs.
 */
import type { Phase, Plugin, SlotPhases } from "../plugin.ts";
import type { Condition, PluginUse, RouteConfig } from "./config.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import { narrowerParts } from "./paths.ts";

/** A route, or the steps before a 404, as the proof sees it. */
export interface Line {
  /** `POST /v1/x`, for messages. */
  readonly title: string;
  readonly steps: readonly (PluginUse & { readonly when: Condition | undefined })[];
  readonly surface: PluginUse | undefined;
  readonly off: readonly PluginUse[];
  readonly incomplete: boolean;
  readonly route: Pick<RouteConfig, "path" | "methods"> | undefined;
}

/** The phases in the order in which an exchange passes them: see the table in plugin.ts. */
export const phases: readonly Phase[] = [
  "requestHeaders",
  "requestBody",
  "answer",
  "responseHeaders",
  "responseChunk",
  "responseEnd",
  "settled",
];
const answer = phases.indexOf("answer");

interface Hook {
  readonly use: PluginUse;
  readonly when: Condition | undefined;
  readonly slot: string;
  readonly phase: Phase;
  /** 0 at the top of the list; the surface is below all steps. */
  readonly depth: number;
}

interface Need extends Hook {
  readonly required: boolean;
}

/** Moments are compared as numbers: by phase, then down the list, or up it after the answer. */
function moment(hook: Hook, steps: number): number {
  const phase = phases.indexOf(hook.phase);
  return phase * (steps + 1) + (phase > answer ? steps - hook.depth : hook.depth);
}

/**
 * Whether the provider has certainly run when the needer does. On the way up a step runs also when a step below it
 * replied, when no body was read and when the answer has no body; `settled` runs even when the client left before any
 * answer. So only what a step above (or the same step) has set is there: in `requestHeaders`, or with the head of an
 * answer that is being sent.
 */
function isSure(provider: Hook, needer: Hook): boolean {
  if (phases.indexOf(needer.phase) <= answer) return true;
  if (provider.depth > needer.depth) return false;
  if (provider.phase === "requestHeaders") return true;
  return provider.phase === "responseHeaders" && needer.phase !== "settled";
}

export function proveOrder(line: Line, plugins: ReadonlyMap<string, Plugin>): Fault[] {
  const provided: Hook[] = [];
  const needed: Need[] = [];
  const places = [
    ...line.steps.map((use) => ({ use, when: use.when })),
    ...(line.surface === undefined ? [] : [{ use: line.surface, when: undefined }]),
  ];
  let unknown = line.incomplete;
  for (const [depth, { use, when }] of places.entries()) {
    const plugin = plugins.get(use.name);
    unknown ||= plugin === undefined;
    if (plugin === undefined) continue;
    const at = (slots: SlotPhases | undefined): Hook[] =>
      Object.entries(slots ?? {}).map(([slot, phase]) => ({ use, when, depth, slot, phase }));
    provided.push(...at(plugin.provides));
    needed.push(...at(plugin.needs).map((hook) => ({ ...hook, required: true })));
    needed.push(...at(plugin.wants).map((hook) => ({ ...hook, required: false })));
  }
  const bySlot = Map.groupBy(provided, (hook) => hook.slot);
  return [
    ...[...bySlot.values()].flatMap(([first, ...others]) => twice(first, others, line)),
    ...needed.flatMap((need) => {
      const provider = bySlot.get(need.slot)?.[0];
      if (provider !== undefined) return judge(provider, need, line);
      return need.required && !unknown ? [missing(need, line, plugins)] : [];
    }),
  ];
}

function place(at: Position): string {
  return `line ${at.line}`;
}

function twice(first: Hook | undefined, others: readonly Hook[], line: Line): Fault[] {
  if (first === undefined) return [];
  return others.map(({ use, slot }) => {
    const at = use.at;
    if (first.use.at === at) {
      const message = `${use.name} sets "${slot}" twice on ${line.title}: a list that holds it is used twice`;
      return fault("SLUICE_SLOT_TWICE", message, { at, remedy: "Remove one `use` of that list." });
    }
    const message = `${use.name} sets "${slot}", which ${first.use.name} (${place(first.use.at)}) has set already on ${line.title}`;
    const remedy = `Remove ${use.name} here, or ${first.use.name} on ${place(first.use.at)}.`;
    return fault("SLUICE_SLOT_TWICE", message, { at, remedy });
  });
}

function missing(need: Need, line: Line, plugins: ReadonlyMap<string, Plugin>): Fault {
  const { use, slot } = need;
  const isProvider = (name: string): boolean =>
    plugins.get(name)?.provides?.[slot as never] !== undefined;
  const off = line.off.find((candidate) => isProvider(candidate.name));
  const known = [...plugins.keys()].filter(isProvider);
  const message = `${use.name} needs "${slot}", which nothing provides on ${line.title}`;
  if (off !== undefined) {
    const remedy = `Turn ${off.name} on (${place(off.at)}: mode enforce or shadow), or remove ${use.name}.`;
    return fault("SLUICE_SLOT_MISSING", `${message}: ${off.name} is off`, { at: use.at, remedy });
  }
  const candidates = known.length === 0 ? "a step that provides it" : known.join(" or ");
  const remedy = `Put ${candidates} above ${use.name}, or remove ${use.name}.`;
  return fault("SLUICE_SLOT_MISSING", message, { at: use.at, remedy });
}

function judge(provider: Hook, need: Need, line: Line): Fault[] {
  const { use, slot } = need;
  const steps = line.steps.length;
  const other = provider.use;
  const verb = need.required ? "needs" : "wants";
  if (moment(provider, steps) >= moment(need, steps)) {
    const isOwn = provider.depth === need.depth;
    const message = `${use.name} ${verb} "${slot}" in ${need.phase}, which ${other.name} (${place(other.at)}) sets only later, in ${provider.phase}, on ${line.title}`;
    const canMove = provider.phase === need.phase && !isOwn;
    const [upper, lower] = phases.indexOf(need.phase) > answer ? [use, other] : [other, use];
    const remedy = canMove
      ? `Move ${upper.name} (${place(upper.at)}) above ${lower.name} (${place(lower.at)}).`
      : `No order helps: remove ${use.name}, or use another plugin that sets "${slot}" earlier.`;
    return [fault("SLUICE_SLOT_LATE", message, { at: use.at, remedy })];
  }
  if (!need.required) return [];
  if (!isSure(provider, need)) {
    const message = `${use.name} needs "${slot}" in ${need.phase}; ${other.name} (${place(other.at)}) sets it in ${provider.phase}, which not every exchange on ${line.title} reaches`;
    const remedy =
      provider.phase === "requestHeaders" && provider.depth > need.depth
        ? `Move ${other.name} (${place(other.at)}) above ${use.name} (${place(use.at)}).`
        : `No order helps: ${use.name} would have to declare "${slot}" in \`wants\` instead of \`needs\`.`;
    return [fault("SLUICE_SLOT_UNSURE", message, { at: use.at, remedy })];
  }
  const narrower = narrowerParts(provider.when, need.when, line.route);
  if (narrower.length === 0) return [];
  const message = `${use.name} needs "${slot}", but ${other.name} (${place(other.at)}) does not run for all the same requests on ${line.title}: its \`when\` is narrower in ${narrower.join(", ")}`;
  const isSurface = need.depth === steps;
  const remedy = `Remove that from the \`when\` of ${other.name} (${place(other.at)})${isSurface ? "" : `, or give ${use.name} the same`}.`;
  return [fault("SLUICE_SLOT_CONDITION", message, { at: other.at, remedy })];
}
