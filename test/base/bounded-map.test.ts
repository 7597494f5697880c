/** Tests of the data structure that drops the least recently used entry. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BoundedMap } from "../../src/base/bounded-map.ts";

describe("a bounded map", () => {
  it("drops the least recently used entry when it is full, and reports it", () => {
    const dropped: number[] = [];
    const map = new BoundedMap<string, number>(2, (value) => dropped.push(value));
    map.set("a", 1);
    map.set("b", 2);
    assert.equal(map.get("a"), 1);
    map.set("c", 3);
    assert.deepEqual(
      [...map.entries()],
      [
        ["a", 1],
        ["c", 3],
      ],
    );
    assert.deepEqual(dropped, [2]);
  });

  it("does not count peek as a use", () => {
    const map = new BoundedMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    assert.equal(map.peek("a"), 1);
    map.set("c", 3);
    assert.equal(map.has("a"), false);
  });

  it("drops nothing when a value is replaced or deleted", () => {
    const dropped: number[] = [];
    const map = new BoundedMap<string, number>(2, (value) => dropped.push(value));
    map.set("a", 1);
    map.set("b", 2);
    map.set("a", 3);
    map.delete("b");
    assert.deepEqual([...map.values()], [3]);
    assert.equal(map.size, 1);
    assert.deepEqual(dropped, []);
  });
});
