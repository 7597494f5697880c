import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { paragraphsOf, type Paragraph } from "../../../../plugins/tools/docs-search/paragraphs.ts";

function paragraphs(markdown: string): readonly Paragraph[] {
  return paragraphsOf({ url: "https://docs.test/a.md", name: "a", markdown }).paragraphs;
}

function texts(markdown: string): string[] {
  return paragraphs(markdown).map(({ text }) => text);
}

test("a paragraph has the title of its section and the anchor of its heading", () => {
  assert.deepEqual(paragraphs("Before.\n\n# Guide\n\nOne.\n\n## Über & under\n\nTwo.\n"), [
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
  assert.deepEqual(texts(markdown), [
    "A bold word, code_span, a link, a picture, gone a&b ä *star* tagend next",
  ]);
});

test("html is indexed without its tags and comments", () => {
  assert.deepEqual(texts("<div>\n<!-- not this -->\n<p>this</p></div>\n"), ["this"]);
  assert.deepEqual(texts("<div>\nkept <!-- never closed\n"), ["kept"]);
});

test("code is indexed line by line, however it is fenced", () => {
  assert.deepEqual(texts("```yaml\na: 1\n  b: <2>\n```\n\n~~~\nc && d\n~~~\n\n    indented()\n"), [
    "a: 1\n  b: <2>",
    "c && d",
    "indented()",
  ]);
});

test("a sentence that ends in a colon belongs to what follows", () => {
  assert.deepEqual(texts("Run:\n\n```\nnpm start\n```\n\nThen:\n\n# Next\n\nEnd:"), [
    "Run:\nnpm start",
    "Then:",
    "End:",
  ]);
});

test("rows and items are lines, even if nested", () => {
  assert.deepEqual(texts("| a | b |\n|---|---|\n| 1 | `x` |\n| | 2 |\n"), ["a; b\n1; x\n2"]);
  assert.deepEqual(texts("- one\n  - two\n- [ ] three\n\n  more\n"), ["one\ntwo\nthree\nmore"]);
  assert.deepEqual(texts("> quoted\n> - item\n"), ["quoted\nitem"]);
});

test("a head longer than a paragraph is not repeated", () => {
  const head = "word ".repeat(300).trim();
  const rows = Array.from({ length: 30 }, (_, i) => `| ${i} ${"x".repeat(30)} | b |\n`);
  const found = texts(`| ${head} | b |\n|---|---|\n${rows.join("")}`);
  assert.ok(found.length > 3);
  assert.ok(found.every((text) => text.length <= 1_501));
  assert.match(found.at(-1) ?? "", /^\d+ x+; b/);
});

test("a long list is cut between items, a long line between words", () => {
  const item = "word ".repeat(40).trim();
  const list = texts(Array.from({ length: 10 }, () => `- ${item}`).join("\n"));
  assert.deepEqual(
    list.map((text) => text.split("\n").length),
    [2, 2, 2, 2, 2],
  );
  const long = texts("lorem ipsum ".repeat(300));
  assert.ok(long.every((text) => text.length <= 1_000));
  assert.equal(long.join(" "), "lorem ipsum ".repeat(300).trim());
  assert.deepEqual(
    texts("x".repeat(2_500)).map(({ length }) => length),
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
    assert.deepEqual(texts(`${matter}# T\n\nText.\n`), ["Text."]);
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
      for (const { title, url, text: found } of paragraphs(parts.join(""))) {
        assert.ok(URL.canParse(url) && url.startsWith("https://docs.test/a.md"));
        assert.match(found, /[\p{L}\p{N}]/u);
        assert.ok(found.length <= 1_501);
        assert.notEqual(title, "");
      }
    }),
    { numRuns: 300 },
  );
});
