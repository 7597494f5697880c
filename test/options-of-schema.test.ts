/** The type of the options of a plugin follows from its schema, so the compiler finds a difference. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineStep, defineSurface } from "../src/plugin.ts";
import { testStep } from "../plugins/contracts/testing.ts";

type Equal<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

/** A call of the result compiles only with a value of exactly this type. */
function hasType<Expected>() {
  return <T>(_: T, ..._same: Equal<T, Expected> extends true ? [] : [never]): void => {};
}

const step = defineStep({
  name: "counts",
  description: "Has options of each type.",
  options: {
    type: "object",
    properties: {
      count: { type: "integer" },
      title: { type: "string", default: "" },
      mode: { enum: ["fast", "exact"] },
      hosts: { type: "array", items: { type: "string" } },
      limit: { type: ["number", "null"] },
      prices: { type: "object", additionalProperties: { type: "number" }, default: {} },
      other: {},
    },
    required: ["count"],
    additionalProperties: false,
  },
  start(options) {
    hasType<{
      readonly count: number;
      readonly title: string;
      readonly mode?: "fast" | "exact";
      readonly hosts?: readonly string[];
      readonly limit?: number | null;
      readonly prices: Readonly<Record<string, number>>;
      readonly other?: unknown;
    }>()(options);
    const { count } = options;
    return { responseHeaders: (_, head) => head.set("x-count", String(count + 1)) };
  },
});

defineSurface({
  name: "misspelt",
  description: "Reads an option that its schema does not have.",
  options: { type: "object", properties: { cuont: { type: "string" } } },
  // @ts-expect-error The schema has no `count`.
  start: ({ count }) => ({ answer: () => ({ status: 200, body: String(count) }) }),
});

test("a step gets the options whose type its schema determines", async () => {
  await using tested = await testStep(step, { options: { count: 1 } });
  const { headers } = await tested.send({});
  assert.equal(new Headers(headers).get("x-count"), "2");
});
