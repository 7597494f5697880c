/**
 * The order proof. It shows that whenever a hook runs, every slot that it needs has been set, on every path that an
 * exchange can take through a route. It uses only the manifests; no plugin runs.
 */
import type { Phase, Plugin, SlotPhases } from "../plugin.ts";
import type { Condition, PluginUse, RouteConfig, StepUse } from "./config.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import { unimpliedParts } from "./paths.ts";

export interface StepChain {
  /** Name in messages, such as `POST /v1/x`. */
  readonly title: string;
  readonly steps: readonly (PluginUse & Pick<StepUse, "when" | "onError">)[];
  readonly surface: PluginUse | undefined;
  readonly off: readonly PluginUse[];
  readonly incomplete: boolean;
  readonly route: Pick<RouteConfig, "path" | "methods"> | undefined;
}

/** Phases in the order of an exchange: see the table in plugin.ts. */
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
  readonly isSkippable: boolean;
  readonly slot: string;
  readonly phase: Phase;
  /** The surface is below all steps. */
  readonly depth: number;
}

interface Need extends Hook {
  readonly required: boolean;
}

/** Orders hooks in time: by phase, then down the list, or up the list after the answer. */
function orderInTime(hook: Hook, steps: number): number {
  const phase = phases.indexOf(hook.phase);
  return phase * (steps + 1) + (phase > answer ? steps - hook.depth : hook.depth);
}

/**
 * On the way up, a step also runs if a step below it replied, if no body was read, and if the answer has no body.
 * `settled` runs even if the client left before any answer. So a slot is certainly set only if the same step or a step
 * above set it: in `requestHeaders`, or in `responseHeaders` unless the slot is needed in `settled`.
 */
function certainlyRunsBefore(provider: Hook, needer: Hook): boolean {
  if (phases.indexOf(needer.phase) <= answer) return true;
  if (provider.depth > needer.depth) return false;
  if (provider.phase === "requestHeaders") return true;
  return provider.phase === "responseHeaders" && needer.phase !== "settled";
}

export function proveOrder(chain: StepChain, plugins: ReadonlyMap<string, Plugin>): Fault[] {
  const provided: Hook[] = [];
  const needed: Need[] = [];
  const places = [
    ...chain.steps.map((use) => ({ use, when: use.when, isSkippable: use.onError === "skip" })),
    ...(chain.surface === undefined
      ? []
      : [{ use: chain.surface, when: undefined, isSkippable: false }]),
  ];
  let unknown = chain.incomplete;
  for (const [depth, placed] of places.entries()) {
    const { use } = placed;
    const plugin = plugins.get(use.name);
    unknown ||= plugin === undefined;
    if (plugin === undefined) continue;
    const at = (slots: SlotPhases | undefined): Hook[] =>
      Object.entries(slots ?? {}).map(([slot, phase]) => ({ ...placed, depth, slot, phase }));
    provided.push(...at(plugin.provides));
    needed.push(...at(plugin.needs).map((hook) => ({ ...hook, required: true })));
    needed.push(...at(plugin.wants).map((hook) => ({ ...hook, required: false })));
  }
  const bySlot = Map.groupBy(provided, (hook) => hook.slot);
  return [
    ...[...bySlot.values()].flatMap(([first, ...others]) => duplicateFaults(first, others, chain)),
    ...needed.flatMap((need) => {
      const provider = bySlot.get(need.slot)?.[0];
      if (provider !== undefined) return orderFaults(provider, need, chain);
      return need.required && !unknown ? [missingFault(need, chain, plugins)] : [];
    }),
  ];
}

function place(at: Position): string {
  return `line ${at.line}`;
}

function duplicateFaults(
  first: Hook | undefined,
  others: readonly Hook[],
  chain: StepChain,
): Fault[] {
  if (first === undefined) return [];
  return others.map(({ use, slot }) => {
    const at = use.at;
    if (first.use.at === at) {
      const message = `${use.name} sets "${slot}" twice on ${chain.title}: a list that contains the step is used twice`;
      return fault("SLUICE_SLOT_TWICE", message, { at, remedy: "Remove one `use` of that list." });
    }
    const message = `${use.name} sets "${slot}", which ${first.use.name} (${place(first.use.at)}) already sets on ${chain.title}`;
    const remedy = `Remove ${use.name} here, or remove ${first.use.name} (${place(first.use.at)}).`;
    return fault("SLUICE_SLOT_TWICE", message, { at, remedy });
  });
}

function missingFault(need: Need, chain: StepChain, plugins: ReadonlyMap<string, Plugin>): Fault {
  const { use, slot } = need;
  const isProvider = (name: string): boolean =>
    plugins.get(name)?.provides?.[slot as never] !== undefined;
  const off = chain.off.find((candidate) => isProvider(candidate.name));
  const known = [...plugins.keys()].filter(isProvider);
  const message = `${use.name} needs "${slot}", but no step provides it on ${chain.title}`;
  if (off !== undefined) {
    const remedy = `Enable ${off.name} (${place(off.at)}) with mode enforce or shadow, or remove ${use.name}.`;
    return fault("SLUICE_SLOT_MISSING", `${message} (${off.name} has mode off)`, {
      at: use.at,
      remedy,
    });
  }
  const candidates = known.length === 0 ? "a step that provides it" : known.join(" or ");
  const remedy = `Put ${candidates} above ${use.name}, or remove ${use.name}.`;
  return fault("SLUICE_SLOT_MISSING", message, { at: use.at, remedy });
}

function orderFaults(provider: Hook, need: Need, chain: StepChain): Fault[] {
  const { use, slot } = need;
  const steps = chain.steps.length;
  const other = provider.use;
  const verb = need.required ? "needs" : "wants";
  if (orderInTime(provider, steps) >= orderInTime(need, steps)) {
    const isOwn = provider.depth === need.depth;
    const message = `${use.name} ${verb} "${slot}" in ${need.phase}, but ${other.name} (${place(other.at)}) sets it later, in ${provider.phase}, on ${chain.title}`;
    const canMove = provider.phase === need.phase && !isOwn;
    const [upper, lower] = phases.indexOf(need.phase) > answer ? [use, other] : [other, use];
    const remedy = canMove
      ? `Move ${upper.name} (${place(upper.at)}) above ${lower.name} (${place(lower.at)}).`
      : `Reordering does not help: remove ${use.name}, or use another plugin that sets "${slot}" earlier.`;
    return [fault("SLUICE_SLOT_LATE", message, { at: use.at, remedy })];
  }
  if (!need.required) return [];
  if (!certainlyRunsBefore(provider, need)) {
    const message = `${use.name} needs "${slot}" in ${need.phase}, but ${other.name} (${place(other.at)}) sets it in ${provider.phase}, which some exchanges on ${chain.title} do not reach`;
    const remedy =
      provider.phase === "requestHeaders" && provider.depth > need.depth
        ? `Move ${other.name} (${place(other.at)}) above ${use.name} (${place(use.at)}).`
        : `Reordering does not help: the manifest of ${use.name} would have to declare "${slot}" in \`wants\` instead of \`needs\`.`;
    return [fault("SLUICE_SLOT_UNSURE", message, { at: use.at, remedy })];
  }
  if (provider.isSkippable && provider.depth !== need.depth) {
    const message = `${use.name} on ${chain.title} needs "${slot}", but ${other.name} (${place(other.at)}) has \`onError: skip\`: if it fails, it does not set the slot`;
    const remedy = `Remove \`onError: skip\` from ${other.name} (${place(other.at)}), or remove ${use.name} (${place(use.at)}).`;
    return [fault("SLUICE_SLOT_UNSURE", message, { at: other.at, remedy })];
  }
  const narrower = unimpliedParts(provider.when, need.when, chain.route);
  if (narrower.length === 0) return [];
  const message = `${use.name} needs "${slot}", but ${other.name} (${place(other.at)}) does not run for all of the same requests on ${chain.title}: its \`when\` restricts ${narrower.join(", ")}`;
  const isSurface = need.depth === steps;
  const remedy = `Remove this from the \`when\` of ${other.name} (${place(other.at)})${isSurface ? "" : `, or add it to the \`when\` of ${use.name}`}.`;
  return [fault("SLUICE_SLOT_CONDITION", message, { at: other.at, remedy })];
}

const maxNamed = 3;

/** Stands for the titles of the chains that share a fault. No message of the proof contains a control character. */
const titleMark = "\0";

/** Proves the order of all routes. A fault in a list that many routes use is reported once. */
export function proveChains(
  chains: readonly StepChain[],
  plugins: ReadonlyMap<string, Plugin>,
): Fault[] {
  const found = new Map<string, { readonly one: Fault; readonly lines: StepChain[] }>();
  for (const chain of chains) {
    for (const one of proveOrder({ ...chain, title: titleMark }, plugins)) {
      const key = JSON.stringify(one);
      const known = found.get(key);
      if (known === undefined) found.set(key, { one, lines: [chain] });
      else known.lines.push(chain);
    }
  }
  return [...found.values()].map(({ one, lines: shared }) => {
    return { ...one, message: one.message.replace(titleMark, () => titleOf(shared)) };
  });
}

/** Returns `POST /a`, or `26 routes (POST /a, GET /b, GET /c and 23 more)`. */
function titleOf(chains: readonly StepChain[]): string {
  const routes = [...new Set(chains.filter(isRoute).map(({ title }) => title))];
  const others = chains.filter((line) => !isRoute(line)).map(({ title }) => title);
  const [only = ""] = routes;
  const named = routes.slice(0, maxNamed).join(", ");
  const rest = routes.length - maxNamed;
  const listed = rest > 0 ? `${named} and ${rest} more` : named;
  const all = routes.length > 1 ? `${routes.length} routes (${listed})` : only;
  return [all, ...others].filter((part) => part !== "").join(" and ");
}

function isRoute({ route }: StepChain): boolean {
  return route !== undefined;
}
