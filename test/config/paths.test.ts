/** Tests of the algorithms that compare path patterns and conditions, against random requests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { Condition } from "../../src/config/config.ts";
import {
  unimpliedParts,
  pathNeverMatches,
  pathProblem,
  coversAllPaths,
} from "../../src/config/paths.ts";
import type { RequestHead } from "../../src/plugin.ts";
import { matchesCondition } from "../../src/pipeline/run/compile.ts";

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
