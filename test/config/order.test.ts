/** Tests of the algorithm that proves the order of steps, against a model that runs every exchange. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { proveOrder, type StepChain } from "../../src/config/order.ts";
import type { Phase, Plugin } from "../../src/plugin.ts";

const at = { file: "pipeline.yaml", line: 1, col: 1 };

interface Manifest {
  readonly needs: Readonly<Record<string, Phase>>;
  readonly provides: Readonly<Record<string, Phase>>;
}

function prove(steps: readonly Manifest[], surface: Manifest): string[] {
  const use = (name: string): StepChain["steps"][number] => {
    return { name, at, options: {}, positionOf: () => at, when: undefined, onError: "refuse" };
  };
  const plugins = new Map<string, Plugin>();
  const add = (name: string, kind: "step" | "surface", manifest: Manifest): void => {
    const start = (): never => {
      throw new Error("a proof starts nothing");
    };
    plugins.set(name, { kind, name, description: name, start, ...manifest });
  };
  for (const [index, step] of steps.entries()) add(`step-${index}`, "step", step);
  add("surface", "surface", surface);
  const line: StepChain = {
    title: "/",
    steps: steps.map((_, index) => use(`step-${index}`)),
    surface: use("surface"),
    off: [],
    incomplete: false,
    route: undefined,
  };
  return proveOrder(line, plugins).map((fault) => fault.code);
}

const down = ["requestHeaders", "requestBody"] as const;
const up = ["responseHeaders", "responseChunk", "responseEnd", "settled"] as const;

/** The course of one exchange. `replier`: the step that replies on the way down. Undefined if the surface answers. */
interface Path {
  readonly replier: { readonly phase: Phase; readonly depth: number } | undefined;
  /** `left`: the client leaves before the answer's head is sent; `empty`: the answer has no body. */
  readonly end: "whole" | "empty" | "left";
}

/** Runs an exchange as plugin.ts describes it, and returns whether some hook lacked a slot. */
function misses(steps: readonly Manifest[], surface: Manifest, { replier, end }: Path): boolean {
  const set = new Set<string>();
  let missed = false;
  const runHook = (manifest: Manifest | undefined, phase: Phase): void => {
    if (manifest === undefined) return;
    for (const [slot, when] of Object.entries(manifest.needs)) {
      if (when === phase && !set.has(slot)) missed = true;
    }
    for (const [slot, when] of Object.entries(manifest.provides)) if (when === phase) set.add(slot);
  };
  let entered = 0;
  let replied = false;
  for (const phase of down) {
    for (let depth = 0; depth < steps.length && !replied; depth++) {
      entered = Math.max(entered, depth + 1);
      runHook(steps[depth], phase);
      replied = replier?.phase === phase && replier.depth === depth;
    }
  }
  if (!replied) runHook(surface, "answer");
  for (const phase of up) {
    if (end === "left" && phase !== "settled") continue;
    if (end === "empty" && phase === "responseChunk") continue;
    for (let depth = entered - 1; depth >= 0; depth--) runHook(steps[depth], phase);
  }
  return missed;
}

function everyPath(steps: readonly Manifest[]): Path[] {
  const replies = down.flatMap((phase) => steps.map((_, depth) => ({ phase, depth })));
  return [undefined, ...replies].flatMap((replier) =>
    (["whole", "empty", "left"] as const).map((end) => ({ replier, end })),
  );
}

const slots = fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom<Phase>(...down, ...up));
const ofSurface = fc.dictionary(fc.constantFrom("a", "b"), fc.constant<Phase>("answer"));
const noneTwice = (steps: readonly Manifest[], surface: Manifest): boolean => {
  const provided = [...steps, surface].flatMap((manifest) => Object.keys(manifest.provides));
  return new Set(provided).size === provided.length;
};
const route = fc
  .tuple(
    fc.array(fc.record({ needs: slots, provides: slots }), { maxLength: 4 }),
    fc.record({ needs: ofSurface, provides: ofSurface }),
  )
  .filter(([steps, surface]) => noneTwice(steps, surface));

test("an order is refused if and only if some exchange would read a slot before it is set", () => {
  const seen = { refused: 0, proved: 0 };
  fc.assert(
    fc.property(route, ([steps, surface]) => {
      const refused = prove(steps, surface).length > 0;
      const missed = everyPath(steps).some((path) => misses(steps, surface, path));
      seen[refused ? "refused" : "proved"]++;
      assert.equal(refused, missed);
    }),
    { numRuns: 5_000 },
  );
  assert.ok(seen.refused > 50 && seen.proved > 50, JSON.stringify(seen));
});

test("two providers of one slot are refused, even if no step needs the slot", () => {
  const provider: Manifest = { needs: {}, provides: { a: "requestHeaders" } };
  const surface: Manifest = { needs: {}, provides: { a: "answer" } };
  assert.deepEqual(prove([provider, provider], { needs: {}, provides: {} }), ["SLUICE_SLOT_TWICE"]);
  assert.deepEqual(prove([provider], surface), ["SLUICE_SLOT_TWICE"]);
});
