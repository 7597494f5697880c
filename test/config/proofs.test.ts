/** Tests of the algorithms that prove the order of steps and compare paths, against a model and random requests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { proveOrder, type StepChain } from "../../src/config/order.ts";
import type { Phase, Plugin, RequestHead } from "../../src/plugin.ts";
import type { Condition } from "../../src/config/config.ts";
import {
  unimpliedParts,
  pathNeverMatches,
  pathProblem,
  coversAllPaths,
} from "../../src/config/paths.ts";
import { matchesCondition } from "../../src/pipeline/run/compile.ts";

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
const anyRoute = fc
  .tuple(
    fc.array(fc.record({ needs: slots, provides: slots }), { maxLength: 4 }),
    fc.record({ needs: ofSurface, provides: ofSurface }),
  )
  .filter(([steps, surface]) => noneTwice(steps, surface));

test("an order is refused if and only if some exchange would read a slot before it is set", () => {
  const seen = { refused: 0, proved: 0 };
  fc.assert(
    fc.property(anyRoute, ([steps, surface]) => {
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

const segment = fc.constantFrom("a", "b", "{x}", "{y}");
const pattern = fc
  .tuple(fc.array(segment, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([parts, open]) => `/${[...parts, ...(open ? ["*"] : [])].join("/")}`)
  .filter((path) => pathProblem(path) === undefined);
const path = fc
  .array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 4 })
  .map((parts) => `/${parts.join("/")}`);

function matches(route: string, actual: string): boolean {
  const expression = route.replaceAll(/\{\w+\}/g, "[^/]+").replace(/\*$/, ".*");
  return new RegExp(`^${expression}$`).test(actual);
}

test("if coversAllPaths is true, the earlier pattern matches every path that the later one matches", () => {
  fc.assert(
    fc.property(pattern, pattern, path, (earlier, later, actual) => {
      if (coversAllPaths(earlier, later) && matches(later, actual)) {
        assert.ok(matches(earlier, actual));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("if coversAllPaths is false within one group, the later pattern matches a path that the earlier one does not match", () => {
  assert.equal(coversAllPaths("/a/{x}", "/{y}/b"), false);
  assert.equal(coversAllPaths("/{x}/b", "/a/b"), false);
  assert.equal(coversAllPaths("/{x}", "/a/*"), false);
  assert.equal(coversAllPaths("/a/*", "/*"), false);
  assert.equal(coversAllPaths("/*", "/a/*"), true);
  assert.equal(coversAllPaths("/{x}/{y}", "/{a}/b"), true);
});

/** A route's pattern, one path that it matches, and paths of conditions that are likely to match. */
const place = fc
  .tuple(pattern, fc.array(fc.constantFrom("a", "b"), { minLength: 4, maxLength: 4 }))
  .map(([route, fill]) => ({
    route,
    actual: route.replaceAll(/\{\w+\}|\*/g, () => fill.pop() ?? "a"),
  }));

function conditionPath(actual: string): fc.Arbitrary<string> {
  const prefix = fc.nat({ max: actual.length }).map((end) => `${actual.slice(0, end) || "/"}*`);
  return fc.oneof(prefix, fc.constant(actual), path);
}

const methods = fc.subarray(["GET", "HEAD", "POST"], { minLength: 1 });
const header = fc.dictionary(fc.constantFrom("x-a", "x-b"), fc.constantFrom("*", "1", "2"), {
  minKeys: 1,
});
function condition(actual: string): fc.Arbitrary<Condition> {
  return fc.record({ path: conditionPath(actual), methods, header }, { requiredKeys: [] });
}

function request(
  method: string,
  actual: string,
  headers: Readonly<Record<string, string>>,
): RequestHead {
  const head: Pick<RequestHead, "method" | "path" | "headers"> = { method, path: actual, headers };
  // Conditions do not use other members.
  return head as RequestHead;
}

test("a condition without a narrower part holds for every request of the route that meets the other condition", () => {
  const headers = fc.dictionary(fc.constantFrom("x-a", "x-b"), fc.constantFrom("1", "2", "3"));
  const situation = place.chain(({ route, actual }) =>
    fc.record({
      route: methods.map((taken) => ({ path: route, methods: taken })),
      request: headers.chain((sent) =>
        fc.constantFrom("GET", "HEAD", "POST").map((method) => request(method, actual, sent)),
      ),
      outer: condition(actual),
      other: condition(actual),
      isStricter: fc.boolean(),
    }),
  );
  let implied = 0;
  fc.assert(
    fc.property(situation, ({ route, request: seen, outer, other, isStricter }) => {
      const inner = isStricter ? { ...outer, ...other } : other;
      if (!route.methods.includes(seen.method) || !matchesCondition(inner, seen)) return;
      if (unimpliedParts(outer, inner, route).length > 0) return;
      implied++;
      assert.ok(matchesCondition(outer, seen));
    }),
    { numRuns: 5_000 },
  );
  assert.ok(implied > 10, `only ${implied} of the cases say anything`);
});

test("a condition's path that never matches a route matches none of its paths", () => {
  const situation = place.chain(({ route, actual }) =>
    fc.record({
      route: fc.constant(route),
      seen: fc.constant(request("GET", actual, {})),
      wanted: fc.oneof(conditionPath(actual), path),
    }),
  );
  fc.assert(
    fc.property(situation, ({ route, seen, wanted }) => {
      if (pathNeverMatches(wanted, route))
        assert.equal(matchesCondition({ path: wanted }, seen), false);
    }),
    { numRuns: 2_000 },
  );
});

test("unimpliedParts names the parts that another condition does not restrict", () => {
  const route = { path: "/v1/{name}", methods: ["GET", "POST"] };
  const outer = { path: "/v1/a", methods: ["GET", "HEAD"], header: { "x-a": "1" } };
  assert.deepEqual(unimpliedParts(outer, undefined, route), ["path", "methods", "header x-a"]);
  assert.deepEqual(unimpliedParts(outer, outer, route), []);
  assert.deepEqual(unimpliedParts({ path: "/v1/*" }, undefined, route), []);
  assert.deepEqual(unimpliedParts({ header: { "x-a": "*" } }, outer, route), []);
  assert.deepEqual(unimpliedParts(undefined, outer, route), []);
});
