/** Tests of the algorithm of the search index, and of the form in which the build writes it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openLibrary, ownFiles } from "../../../../plugins/tools/docs-search/library.ts";
import type { Paragraph } from "../../../../plugins/tools/docs-search/paragraphs.ts";
import { SearchIndex } from "../../../../plugins/tools/docs-search/search-index.ts";

function paragraph(text: string, position = 0, title = "Page"): Paragraph {
  return { title, url: `u${position}`, text };
}

async function found(texts: readonly string[], query: string, limit = 10): Promise<string[]> {
  const index = await SearchIndex.build(texts.map((text, position) => paragraph(text, position)));
  return index.search(query, limit).map(({ text }) => text);
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
  test(`${JSON.stringify(query)} is found`, async () => {
    assert.equal((await found(docs, query))[0], docs[position]);
  });
}

for (const query of ["   ", "xyzzy", "zz", "🦀", "…"]) {
  test(`${JSON.stringify(query)} finds nothing`, async () => {
    assert.deepEqual(await found(docs, query), []);
  });
}

test("a rare word weighs more than a common one, and two rare words more than one", async () => {
  const texts = ["node node node", "node probe", "node", "probe lag node", "node head"];
  assert.deepEqual(await found(texts, "probe lag", 2), ["probe lag node", "node probe"]);
  assert.deepEqual(await found(texts, "node lag", 1), ["probe lag node"]);
});

test("stop words are ignored unless the query has no other words", async () => {
  const texts = ["how do I", "journal backup", "what is it"];
  assert.deepEqual(await found(texts, "how do I do a backup of it?"), ["journal backup"]);
  assert.deepEqual(await found(texts, "how"), ["how do I"]);
});

test("equal scores keep the order of the documents, also where the limit cuts them", async () => {
  const texts = Array.from({ length: 30 }, () => "same words");
  const index = await SearchIndex.build(texts.map((text, position) => paragraph(text, position)));
  const urls = (limit: number): string[] => index.search("words", limit).map(({ url }) => url);
  assert.deepEqual(
    urls(25),
    Array.from({ length: 25 }, (_, position) => `u${position}`),
  );
  assert.deepEqual(urls(3), ["u0", "u1", "u2"]);
});

/** Returns a word that consists of letters only, so that it is one term. */
function wordOf(n: number): string {
  return `q${String.fromCharCode(97 + (n % 20), 97 + Math.floor(n / 20))}`;
}

test("only the first 32 words of a query are searched for", async () => {
  const words = Array.from({ length: 33 }, (_, n) => wordOf(n));
  assert.deepEqual(await found(words, words.join(" "), 40), words.slice(0, 32));
});

test("an index that is loaded finds the same as the one that was written, and can be extended", async () => {
  const paragraphs = docs.map((text, position) => paragraph(text, position));
  const built = await SearchIndex.build(paragraphs);
  const loaded = await SearchIndex.load(built.toJson());
  assert.deepEqual(loaded.search("reservation key", 5), built.search("reservation key", 5));
  const more = [paragraph("Quotas of a tenant", docs.length)];
  await loaded.add(more);
  assert.deepEqual(
    loaded.search("quotas", 5),
    (await SearchIndex.build([...paragraphs, ...more])).search("quotas", 5),
  );
});

test("the list and the index that the build writes have what a checkout finds", async () => {
  const [list, index = ""] = (await ownFiles()).map(([, text]) => text);
  const written = await SearchIndex.load(index);
  const library = await openLibrary({ own: true, folders: [] }, import.meta.dirname);
  assert.equal(list, JSON.stringify(library.pages));
  for (const { bytes, read } of library.pages) assert.equal(Buffer.byteLength(await read()), bytes);
  assert.deepEqual(written.search("credit limit", 3), await library.search("credit limit", 3));
});
