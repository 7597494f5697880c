import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { Paragraph } from "../../plugins/docs-search/paragraphs.ts";
import { buildIndex, search } from "../../plugins/docs-search/search-index.ts";

function paragraph(text: string, position = 0, title = "Page"): Paragraph {
  return { title, url: `u${position}`, text };
}

function found(texts: readonly string[], query: string, limit = 10): string[] {
  const index = buildIndex(texts.map((text, position) => paragraph(text, position)));
  return search(index, query, limit).map(({ text }) => text);
}

const docs = [
  "state_getStorage reads one key",
  "The reservation is settled when the answer has ended",
  "A bucket holds twice the rate",
  "Prüfung der Signatur",
  "const whiteList = readWhitelist()",
];

for (const [query, position] of [
  ["getStorage", 0],
  ["state_getStorage", 0],
  ["STATE_GETSTORAGE", 0],
  ["storage", 0],
  ["keys", 0],
  ["reservations", 1],
  ["what is a reservation?", 1],
  ["prufung", 3],
  ["whitelist", 4],
  ["white list", 4],
  ["rese", 1],
] as const) {
  test(`${JSON.stringify(query)} is found`, () => {
    assert.equal(found(docs, query)[0], docs[position]);
  });
}

for (const query of ["   ", "xyzzy", "zz", "🦀", "…"]) {
  test(`${JSON.stringify(query)} finds nothing`, () => {
    assert.deepEqual(found(docs, query), []);
  });
}

test("an empty index finds nothing", () => {
  assert.deepEqual(found([], "anything"), []);
});

test("a rare word weighs more than a common one, and more of them more than one", () => {
  const texts = ["node node node", "node probe", "node", "probe lag node", "node head"];
  assert.deepEqual(found(texts, "probe lag", 2), ["probe lag node", "node probe"]);
  assert.deepEqual(found(texts, "node lag", 1), ["probe lag node"]);
});

test("the words of a question tell nothing, unless there are no others", () => {
  const texts = ["how do I", "journal backup", "what is it"];
  assert.deepEqual(found(texts, "how do I do a backup of it?"), ["journal backup"]);
  assert.deepEqual(found(texts, "how"), ["how do I"]);
});

test("a word in the title weighs more than one in the text", () => {
  const index = buildIndex([
    paragraph("draining and more words", 0, "Page"),
    paragraph("some and more words", 1, "Draining"),
  ]);
  assert.deepEqual(
    search(index, "draining", 2).map(({ url }) => url),
    ["u1", "u0"],
  );
});

test("equal scores come in the order of the documents, also where the limit cuts them", () => {
  const texts = Array.from({ length: 30 }, () => "same words");
  const index = buildIndex(texts.map((text, position) => paragraph(text, position)));
  const urls = (limit: number): string[] => search(index, "words", limit).map(({ url }) => url);
  assert.deepEqual(
    urls(25),
    Array.from({ length: 25 }, (_, position) => `u${position}`),
  );
  assert.deepEqual(urls(3), ["u0", "u1", "u2"]);
});

test("scores fall, are above 0 and say nothing of markup", () => {
  const index = buildIndex(docs.map((text, position) => paragraph(text, position)));
  const hits = search(index, "the rate reads", 10);
  assert.equal(hits.length, 3);
  assert.deepEqual(Object.keys(hits[0] ?? {}), ["title", "url", "text", "score"]);
  const scores = hits.map(({ score }) => score);
  assert.deepEqual(
    scores,
    scores.toSorted((a, b) => b - a),
  );
  assert.ok(scores.every((score) => score > 0));
});

test("a word that stands almost everywhere decides nothing beside a rarer one, and is found alone", () => {
  const texts = Array.from(
    { length: 700 },
    (_, n) => `common filler ${n % 7 === 0 ? "rare" : "usual"}`,
  );
  const index = buildIndex(texts.map((text, position) => paragraph(text, position)));
  const urls = (query: string): string[] => search(index, query, 25).map(({ url }) => url);
  assert.deepEqual(urls("common rare"), urls("rare"));
  assert.deepEqual(
    urls("common"),
    Array.from({ length: 25 }, (_, position) => `u${position}`),
  );
});

/** A word of letters alone, which is one term. */
function wordOf(n: number): string {
  return `q${String.fromCharCode(97 + (n % 20), 97 + Math.floor(n / 20))}`;
}

test("every paragraph is ranked as MiniSearch ranks it", () => {
  const word = fc.integer({ min: 0, max: 40 }).map(wordOf);
  const text = fc.array(word, { minLength: 1, maxLength: 12 }).map((words) => words.join(" "));
  const query = fc.uniqueArray(word, { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 40 }), query, (texts, words) => {
      const index = buildIndex(texts.map((each, position) => paragraph(each, position, "")));
      const asked = words.join(" ");
      const judged = new Map(index.engine.search(asked).map(({ id, score }) => [`u${id}`, score]));
      const hits = search(index, asked, 25);
      assert.equal(hits.length, Math.min(judged.size, 25));
      // A word's score is kept in ten-thousandths, and both are multiplied by up to twelve words.
      const tolerance = 0.01;
      for (const { url, score } of hits) {
        assert.ok(Math.abs((judged.get(url) ?? Number.NaN) - score) < tolerance);
        judged.delete(url);
      }
      const least = hits.at(-1)?.score ?? 0;
      assert.ok([...judged.values()].every((left) => left < least + tolerance));
    }),
  );
});

test("of more than 32 known words the rarest count", () => {
  const words = Array.from({ length: 33 }, (_, n) => wordOf(n));
  const [twice = "", ...others] = words;
  const texts = [...words, twice];
  assert.deepEqual(found(texts, words.join(" "), 40), others);
  assert.equal(found(texts, words.slice(0, 32).join(" "), 40).length, 33);
});

test("of a very long query the beginning counts", () => {
  const query = `bucket ${"filler ".repeat(100_000)} signatur`;
  assert.deepEqual(found(docs, query), [docs[2]]);
});
