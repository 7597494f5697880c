/** Tests of the algorithm that compares two files, and of the parser that masks secrets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, maskSecrets } from "../../../../plugins/dashboard/dashboard/pipeline-file.ts";

test("equal texts have only common lines, whatever ends the lines", () => {
  assert.deepEqual(compare("a\nb\n", "a\r\nb"), [
    { text: "a", running: 1, disk: 1 },
    { text: "b", running: 2, disk: 2 },
  ]);
  assert.deepEqual(compare("", ""), []);
});

test("changed, added and removed lines have the numbers of their file", () => {
  assert.deepEqual(compare("a\nb\nc\nd\n", "a\nB\nc\nx\n"), [
    { text: "a", running: 1, disk: 1 },
    { text: "b", running: 2 },
    { text: "B", disk: 2 },
    { text: "c", running: 3, disk: 3 },
    { text: "d", running: 4 },
    { text: "x", disk: 4 },
  ]);
});

test("if too much differs, the whole file counts as changed", () => {
  const lines = (word: string): string =>
    Array.from({ length: 1_500 }, (_, n) => `${word} ${n}\n`).join("");
  const compared = compare(`same\n${lines("old")}`, `same\n${lines("new")}`);
  assert.equal(compared.length, 3_002);
  assert.deepEqual(compared[0], { text: "same", running: 1 });
  assert.deepEqual(compared.at(-1), { text: "new 1499", disk: 1_501 });
});

test("a secret that was changed is a changed line, and is not shown", () => {
  const compared = compare("secret: one\nport: 1\n", "secret: two\nport: 1\n");
  assert.deepEqual(compared, [
    { text: "secret: [redacted]", running: 1 },
    { text: "secret: [redacted]", disk: 1 },
    { text: "port: 1", running: 2, disk: 2 },
  ]);
});

const masked: readonly (readonly [string, string])[] = [
  ["secret: hidden", "secret: [redacted]"],
  ['secret: "hidden" # a note', "secret: [redacted] # a note"],
  ["{ apiKey: hidden, port: 1 }", "{ apiKey: [redacted], port: 1 }"],
  ["- api_key: 'hidden'", "- api_key: [redacted]"],
  [
    "webhookSecret: >-\n  hid\n  den\nport: 1",
    "webhookSecret: [redacted]\n  [redacted]\n  [redacted]\nport: 1",
  ],
  ["headers: { authorization: Bearer hidden }", "headers: { authorization: [redacted] }"],
  ['secret: "${GATEWAY_SECRET:-hidden}"', "secret: [redacted]"],
  ["url: https://user:hidden@node/path", "url: https://[redacted]@node/path"],
  ["note: gateway_prod_0123456789abcdef0123456789abcdef", "note: gateway_prod_[redacted]"],
  // The rest of the file has a syntax error.
  ["secret: hidden\nroutes: [ }\n", "secret: [redacted]\nroutes: [ }\n"],
];

test("secrets that are written into the file are hidden, also if the file has syntax errors", () => {
  for (const [text, shown] of masked) assert.equal(maskSecrets(text), shown);
});

test("references, numbers, booleans and other options are shown", () => {
  for (const text of [
    'secret: "${GATEWAY_SECRET}"',
    'secret: "${GATEWAY_SECRET:-}"',
    'authorization: "Bearer ${SEARCH_KEY}"',
    "maxToken: 100\ntoken: true\n",
    "url: http://127.0.0.1:8080",
    "# secret: of the deployment",
    "",
  ]) {
    assert.equal(maskSecrets(text), text);
  }
});
