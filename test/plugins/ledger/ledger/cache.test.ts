/** Tests of the algorithm of the cache: what it keeps, how much, and what it evicts first. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { AnswerCache } from "../../../../plugins/ledger/ledger/cache.ts";

const hundred = "x".repeat(100);

describe("the cache", () => {
  it("keeps its own copy of bytes", () => {
    const cache = new AnswerCache(10_000);
    const bytes = Buffer.from("abc");
    cache.set(cache.answersOf("a"), "[]", bytes);
    bytes.fill("#");
    assert.equal(String(cache.get(cache.answersOf("a"), "[]")), "abc");
  });

  it("stores nothing with a size of 0, and nothing larger than a quarter of the cache", () => {
    const none = new AnswerCache(0);
    assert.equal(none.set(none.answersOf("a"), "[]", ""), false);
    const cache = new AnswerCache(8000);
    assert.equal(cache.set(cache.answersOf("a"), "[1]", "x".repeat(2000)), false);
    assert.equal(cache.set(cache.answersOf("a"), "[2]", "x".repeat(1000)), true);
    assert.equal(cache.entries, 1);
  });

  it("counts keys, and two bytes per character for text that is not latin1", () => {
    const cache = new AnswerCache(100_000);
    const answers = cache.answersOf("a");
    cache.set(answers, "[1]", hundred);
    const small = cache.bytes;
    cache.set(answers, `["${hundred}"]`, hundred);
    assert(cache.bytes >= 2 * small + 100);
    const before = cache.bytes;
    cache.set(answers, "[2]", "✓".repeat(100));
    assert(cache.bytes - before >= small + 100);
  });

  it("evicts entries without hits before entries with hits", () => {
    const cache = new AnswerCache(4000);
    const answers = cache.answersOf("a");
    for (let i = 0; i < 10; i++) cache.set(answers, `[${i}]`, hundred);
    assert.equal(cache.evictions, 0);
    for (const i of [0, 3]) assert.equal(cache.get(answers, `[${i}]`), hundred);
    for (let i = 10; i < 18; i++) cache.set(answers, `[${i}]`, hundred);
    assert(cache.evictions > 0);
    assert.equal(cache.get(answers, "[0]"), hundred);
    assert.equal(cache.get(answers, "[3]"), hundred);
    assert.equal(cache.get(answers, "[1]"), undefined);
    assert.equal(cache.get(answers, "[2]"), undefined);
  });

  it("never exceeds its size, and never returns a wrong answer", () => {
    const action = fc.record({
      kind: fc.constantFrom("set", "get", "clear"),
      answers: fc.constantFrom("a", "b"),
      key: fc.nat({ max: 30 }),
      size: fc.nat({ max: 700 }),
      bytes: fc.boolean(),
    });
    const rare = fc.array(
      action.filter(({ kind, key }) => kind !== "clear" || key === 0),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(rare, (actions) => {
        const cache = new AnswerCache(3000);
        const kept = new Map<string, string>();
        for (const { kind, answers: name, key, size, bytes } of actions) {
          const answers = cache.answersOf(name);
          const text = String(key).repeat(size);
          const id = `${name} ${key}`;
          if (kind === "clear") cache.clear();
          else if (kind === "get") {
            const found = cache.get(answers, String(key));
            if (found !== undefined) assert.equal(String(found), kept.get(id));
          } else if (cache.set(answers, String(key), bytes ? Buffer.from(text) : text))
            kept.set(id, text);
          assert(cache.bytes >= 0 && cache.bytes <= 3000);
          assert.equal(cache.entries, cache.answersOf("a").size + cache.answersOf("b").size);
        }
      }),
      { numRuns: 500 },
    );
  });
});
