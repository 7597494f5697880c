import assert from "node:assert/strict";
import { test } from "node:test";
import { andThen, orElse } from "../../src/base/awaitable.ts";

const double = (n: number): number => n * 2;

test("a known value needs no promise, and a promise is waited for", async () => {
  assert.equal(andThen(2, double), 4);
  const later = andThen(Promise.resolve(2), double);
  assert.ok(later instanceof Promise);
  assert.equal(await later, 4);
});

test("work that throws or rejects is recovered in the same way", async () => {
  const message = (error: unknown): string => String(error);
  const throws = (): never => {
    throw new Error("thrown");
  };
  assert.equal(orElse(throws, message), "Error: thrown");
  assert.equal(
    await orElse(() => Promise.reject(new Error("rejected")), message),
    "Error: rejected",
  );
  assert.equal(
    orElse(() => "fine", message),
    "fine",
  );
});
