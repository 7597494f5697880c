/** Tests of the algorithms of the search: paragraphs of Markdown, their terms, the index, and its form in the build. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { openLibrary, ownFiles } from "../../../../plugins/tools/docs-search/library.ts";
import { type Paragraph, paragraphsOf } from "../../../../plugins/tools/docs-search/paragraphs.ts";
import { SearchIndex } from "../../../../plugins/tools/docs-search/search-index.ts";
import { termsOf } from "../../../../plugins/tools/docs-search/terms.ts";

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

function inPage(markdown: string): readonly Paragraph[] {
  return paragraphsOf({ url: "https://docs.test/a.md", name: "a", markdown }).paragraphs;
}

function textsOf(markdown: string): string[] {
  return inPage(markdown).map(({ text }) => text);
}

test("a paragraph has the title of its section and the anchor of its heading", () => {
  assert.deepEqual(inPage("Before.\n\n# Guide\n\nOne.\n\n## Über & under\n\nTwo.\n"), [
    { title: "Guide", url: "https://docs.test/a.md", text: "Before." },
    { title: "Guide", url: "https://docs.test/a.md#guide", text: "One." },
    {
      title: "Guide: Über & under",
      url: "https://docs.test/a.md#%C3%BCber--under",
      text: "Two.",
    },
  ]);
});

test("markup is not text", () => {
  const markdown =
    'A **bold** _word_, `code_span`, [a link](https://x.test "t"), ![a picture](p.png), ~~gone~~ a&amp;b &#228; \\*star\\* <b>tag</b><br>end  \nnext';
  assert.deepEqual(textsOf(markdown), [
    "A bold word, code_span, a link, a picture, gone a&b ä *star* tagend next",
  ]);
});

test("html is indexed without its tags and comments", () => {
  assert.deepEqual(textsOf("<div>\n<!-- not this -->\n<p>this</p></div>\n"), ["this"]);
  assert.deepEqual(textsOf("<div>\nkept <!-- never closed\n"), ["kept"]);
});

test("code is indexed line by line, however it is fenced", () => {
  assert.deepEqual(
    textsOf("```yaml\na: 1\n  b: <2>\n```\n\n~~~\nc && d\n~~~\n\n    indented()\n"),
    ["a: 1\n  b: <2>", "c && d", "indented()"],
  );
});

test("a sentence that ends in a colon belongs to what follows", () => {
  assert.deepEqual(textsOf("Run:\n\n```\nnpm start\n```\n\nThen:\n\n# Next\n\nEnd:"), [
    "Run:\nnpm start",
    "Then:",
    "End:",
  ]);
});

test("rows and items are lines, even if nested", () => {
  assert.deepEqual(textsOf("| a | b |\n|---|---|\n| 1 | `x` |\n| | 2 |\n"), ["a; b\n1; x\n2"]);
  assert.deepEqual(textsOf("- one\n  - two\n- [ ] three\n\n  more\n"), ["one\ntwo\nthree\nmore"]);
  assert.deepEqual(textsOf("> quoted\n> - item\n"), ["quoted\nitem"]);
});

test("a head longer than a paragraph is not repeated", () => {
  const head = "word ".repeat(300).trim();
  const rows = Array.from({ length: 30 }, (_, i) => `| ${i} ${"x".repeat(30)} | b |\n`);
  const cut = textsOf(`| ${head} | b |\n|---|---|\n${rows.join("")}`);
  assert.ok(cut.length > 3);
  assert.ok(cut.every((text) => text.length <= 1_501));
  assert.match(cut.at(-1) ?? "", /^\d+ x+; b/);
});

test("a long list is cut between items, a long line between words", () => {
  const item = "word ".repeat(40).trim();
  const list = textsOf(Array.from({ length: 10 }, () => `- ${item}`).join("\n"));
  assert.deepEqual(
    list.map((text) => text.split("\n").length),
    [2, 2, 2, 2, 2],
  );
  const long = textsOf("lorem ipsum ".repeat(300));
  assert.ok(long.every((text) => text.length <= 1_000));
  assert.equal(long.join(" "), "lorem ipsum ".repeat(300).trim());
  assert.deepEqual(
    textsOf("x".repeat(2_500)).map(({ length }) => length),
    [1_000, 1_000, 500],
  );
});

for (const [name, matter] of [
  ["YAML", "---\ntitle: secret\n---\n"],
  ["TOML", "+++\ntitle = 'secret'\n+++\n"],
  ["empty", "---\n---\n"],
  ["Windows", "---\r\ntitle: secret\r\n---\r\n"],
] as const) {
  test(`front matter is not text: ${name}`, () => {
    assert.deepEqual(textsOf(`${matter}# T\n\nText.\n`), ["Text."]);
  });
}

test("whatever Markdown holds, paragraphs are short, have a url and are not empty", () => {
  const marks = "# |## |- |1. |> |    || |`|*|_|[a](b)|![x](y)|<b>|<!--|-->|&amp;|&#0;|\\".split(
    "|",
  );
  const blocks = ["\n", "\n\n", "```\n", "| a | b |\n|---|---|\n", "---\n", "word ".repeat(300)];
  const text = fc.string({ unit: "grapheme", maxLength: 12 });
  const piece = fc.oneof(text, fc.constantFrom(...marks), fc.constantFrom(...blocks));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (parts) => {
      for (const { title, url, text: part } of inPage(parts.join(""))) {
        assert.ok(URL.canParse(url) && url.startsWith("https://docs.test/a.md"));
        assert.match(part, /[\p{L}\p{N}]/u);
        assert.ok(part.length <= 1_501);
        assert.notEqual(title, "");
      }
    }),
    { numRuns: 300 },
  );
});

const cases: readonly (readonly [text: string, terms: readonly string[]])[] = [
  ["Reserve, then settle.", ["reserve", "then", "settle"]],
  ["state_getStorage", ["state_getstorage", "state", "getstorage", "get", "storage"]],
  ["usedCUMilli", ["usedcumilli", "used", "cu", "milli"]],
  ["HTTPServer", ["httpserver", "http", "server"]],
  ["sha256", ["sha256", "sha", "256"]],
  ["GATEWAY_NOT_FOUND", ["gateway_not_found", "gateway", "not", "found"]],
  ["metering.durability: rate-limit", ["metering", "durability", "rate", "limit"]],
  ["429", ["429"]],
  ["queries keys status address", ["query", "key", "status", "address"]],
  ["Gewähr für ﬁnale Prüfung", ["gewahr", "fur", "finale", "prufung"]],
  ["Ünïcode ÉCOLE", ["unicode", "ecole"]],
  ["שלום мир", ["שלום", "мир"]],
  ["हिन्दी", ["हिन्दी"]],
  ["한국어", ["한국어"]],
  ["東京都 に 住む", ["東京", "都", "に", "住む"]],
  ["", []],
  ["— … !? 🦀", []],
  ["x".repeat(129), []],
];

for (const [text, terms] of cases) {
  test(`terms of ${JSON.stringify(text.slice(0, 40))}`, () => {
    assert.deepEqual(termsOf(text), terms);
  });
}

test("composed and decomposed letters are the same term", () => {
  assert.deepEqual(termsOf("Prüfung"), termsOf("Prüfung"));
  assert.deepEqual(termsOf("한국"), termsOf("한국".normalize("NFD")));
});
