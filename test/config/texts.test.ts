/** Tests of the parsers of placeholders and formats, of the suggestion of similar names, and of the texts of faults. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as fc from "fast-check";
import { temporaryFolder } from "../store/folder.ts";
import { expandText, type Environment } from "../../src/config/environment.ts";
import { formats } from "../../src/config/formats.ts";
import { editDistance, nearest } from "../../src/config/nearest.ts";
import { fault, orderFaults, shownPath, type Position } from "../../src/config/fault.ts";
import { sluiceErrors } from "../../src/base/errors.ts";

const at = { file: "pipeline.yaml", line: 3, col: 7 };

function expand(text: string, env: Environment = {}): string {
  const { text: result, faults } = expandText(text, env, at);
  assert.deepEqual(faults, []);
  return result;
}

test("a variable, with or without a default, is replaced", () => {
  assert.equal(expand("${HOST}", { HOST: "::1" }), "::1");
  assert.equal(expand("${HOST:-localhost}"), "localhost");
  assert.equal(expand("http://${HOST:-a}:${PORT:-1}/", { PORT: "9" }), "http://a:9/");
  assert.equal(expand("${URL:-http://x:-1}"), "http://x:-1");
});

test("a default replaces an empty variable; an empty variable without a default stays empty", () => {
  assert.equal(expand("${HOST:-localhost}", { HOST: "" }), "localhost");
  assert.equal(expand("${HOST}", { HOST: "" }), "");
  assert.equal(expand("${HOST:-}"), "");
});

test("$${ is a literal ${, and the value of a variable is not expanded again", () => {
  assert.equal(expand("$${HOST}", { HOST: "x" }), "${HOST}");
  assert.equal(expand("${A}", { A: "${B}", B: "b" }), "${B}");
  assert.equal(expand("$5 and $"), "$5 and $");
});

test("text without a placeholder is not changed", () => {
  fc.assert(
    fc.property(
      fc.string().filter((text) => !text.includes("${")),
      (text) => {
        const untouched = { text, expanded: false, defaulted: false, faults: [] };
        assert.deepEqual(expandText(text, {}, at), untouched);
      },
    ),
  );
});

test("expanding any text does not throw, and faults never contain the values of variables", () => {
  const text = fc
    .array(fc.constantFrom("${", "}", "$", "A", "B", ":-", " ", "x"), { maxLength: 12 })
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(text, (input) => {
      const { faults } = expandText(input, { A: "s3cret", B: undefined }, at);
      assert.ok(!JSON.stringify(faults).includes("s3cret"));
      assert.ok(faults.every((one) => one.at === at));
    }),
  );
});

test("all faults of a text are found", () => {
  const { faults } = expandText("${A} ${1} ${B:-x} ${C", {}, at);
  const codes = faults.map((one) => one.code);
  assert.deepEqual(codes, ["SLUICE_ENV_UNSET", "SLUICE_ENV_SYNTAX", "SLUICE_ENV_SYNTAX"]);
});

test("text is marked as defaulted if none of its variables is set", () => {
  const defaulted = (text: string, env: Environment = {}): boolean =>
    expandText(text, env, at).defaulted;
  assert.equal(defaulted("${A:-1}"), true);
  assert.equal(defaulted("${A:-1}", { A: "" }), true);
  assert.equal(defaulted("http://${A:-a}:${B:-1}"), true);
  assert.equal(defaulted("http://${A:-a}:${B:-1}", { B: "9" }), false);
  assert.equal(defaulted("${A:-1}", { A: "1" }), false);
  assert.equal(defaulted("plain"), false);
});

test("a value is read from the file that NAME_FILE names, without the line break at its end", (t) => {
  const file = join(temporaryFolder(t), "secret");
  writeFileSync(file, "two\nlines\n");
  assert.equal(expand("${SECRET}", { SECRET_FILE: file }), "two\nlines");
  assert.equal(expand("${SECRET:-x}", { SECRET: "", SECRET_FILE: file }), "two\nlines");
  assert.equal(expand("${SECRET}", { SECRET: "own", SECRET_FILE: file }), "own");
  assert.equal(expand("${SECRET:-x}", { SECRET_FILE: "" }), "x");
});

test("a file that cannot be the value of a variable is a fault that does not show its content", (t) => {
  const folder = temporaryFolder(t);
  const faultsOf = (path: string): string[] =>
    expandText("${SECRET:-x}", { SECRET_FILE: path }, at).faults.map(
      ({ code, message }) => `${code} ${message.replaceAll(folder, "")}`,
    );
  const file = (name: string, content: string | Buffer): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const code = "SLUICE_ENV_FILE SECRET_FILE:";
  assert.deepEqual(faultsOf(join(folder, "none")), [`${code} cannot read "/none" (ENOENT)`]);
  assert.deepEqual(faultsOf(folder), [`${code} cannot read "" (EISDIR)`]);
  assert.deepEqual(faultsOf(file("empty", "\n")), [`${code} "/empty" is empty`]);
  assert.deepEqual(faultsOf(file("bytes", Buffer.of(0xff))), [
    `${code} "/bytes" is not UTF-8 text`,
  ]);
  assert.deepEqual(faultsOf(file("large", "x".repeat(65_537))), [
    `${code} "/large" has 65537 bytes; the maximum is 65536`,
  ]);
});

test("https-url accepts an origin with a path, over TLS or on this machine", () => {
  const { test: accepts, pattern } = formats["https-url"];
  const good = [
    "https://id.example.com",
    "https://id.example.com:8443/realms/main/",
    "https://[2001:db8::1]/a@b",
    "http://127.0.0.1:8080/realms/main",
    "http://localhost",
  ];
  for (const url of good) {
    assert.ok(accepts(url), url);
    assert.match(url, new RegExp(pattern));
  }
  const bad = [
    "http://id.example.com",
    "ftp://id.example.com",
    "id.example.com",
    "https://",
    "https://id.example.com/?tenant=1",
    "https://id.example.com?",
    "https://id.example.com/#main",
    "https://id.example.com/#",
    "https://user@id.example.com",
    "https://user:secret@id.example.com/",
    "https://:secret@id.example.com/",
    "http://user@localhost",
  ];
  for (const url of bad) assert.ok(!accepts(url), url);
});

test("a name never suggests itself", () => {
  assert.equal(nearest("meter", ["meter"]), undefined);
});

const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 8 });

test("the distance is 0 only between equal words, symmetric, and at most the longer length", () => {
  fc.assert(
    fc.property(word, word, (a, b) => {
      const distance = editDistance(a, b, 100);
      assert.equal(distance === 0, a === b);
      assert.equal(distance, editDistance(b, a, 100));
      assert.ok(distance <= Math.max(a.length, b.length));
    }),
  );
});

test("a limit never changes a distance below it", () => {
  fc.assert(
    fc.property(word, word, fc.integer({ min: 1, max: 9 }), (a, b, limit) => {
      assert.equal(editDistance(a, b, limit), Math.min(limit, editDistance(a, b, 100)));
    }),
  );
});

test("two swapped neighbours count as one mistake", () => {
  assert.equal(editDistance("abcd", "abdc", 100), 1);
});

test("faults are sorted by file, and those without a position come first", () => {
  const placeIn = (file: string, line: number): Position => ({ file, line, col: 1 });
  const faults = [
    fault("SLUICE_KEY_UNKNOWN", "b", { at: placeIn("/srv/x.yaml", 1) }),
    fault("SLUICE_KEY_UNKNOWN", "a", { at: placeIn("/srv/pipeline.yaml", 9) }),
    fault("SLUICE_START_FAILED", "none"),
  ];
  const messages = orderFaults(faults).map((one) => one.message);
  assert.deepEqual(messages, ["none", "a", "b"]);
});

test("only paths in the working directory are printed as relative paths", () => {
  assert.equal(shownPath("/srv/a/pipeline.yaml", "/srv"), "a/pipeline.yaml");
  assert.equal(shownPath("/srv/pipeline.yaml", "/srv/a"), "/srv/pipeline.yaml");
  assert.equal(shownPath("/srv/..a/pipeline.yaml", "/srv"), "..a/pipeline.yaml");
  assert.equal(shownPath("pipeline.yaml", "/srv"), "pipeline.yaml");
});

test("every code has a remedy that is a sentence", () => {
  for (const [code, remedy] of Object.entries(sluiceErrors)) {
    assert.match(code, /^SLUICE_[A-Z]+(_[A-Z]+)*$/);
    assert.match(remedy, /^[A-Z].*[.}]$/s, code);
  }
});
