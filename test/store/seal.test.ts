import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { createSeal, readOrCreateSecret } from "../../src/store/seal.ts";
import { StoreError } from "../../src/store/store-error.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl } from "./run-module.ts";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

describe("a sealed token", () => {
  const seal = createSeal("one secret");

  it("opens to the sealed value for its purpose and with its secret", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.string(),
        fc.nat(),
        (given, purpose, expiresAt) => {
          const value: unknown = JSON.parse(JSON.stringify(given));
          const token = seal.seal(purpose, given, expiresAt);
          assert.match(token, /^[\w-]+\.[\w-]+$/);
          assert.deepEqual(createSeal("one secret").open(purpose, token), { value, expiresAt });
          assert.equal(seal.open(`${purpose}.`, token), undefined);
          assert.equal(createSeal("another").open(purpose, token), undefined);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("does not open if a character is changed, removed or added", () => {
    const token = seal.seal("session", { key: "key_1" }, 1);
    for (let at = 0; at < token.length; at++) {
      for (const other of `${alphabet}.= `) {
        if (other === token[at]) continue;
        const forged = token.slice(0, at) + other + token.slice(at + 1);
        assert.equal(seal.open("session", forged), undefined, forged);
      }
      assert.equal(seal.open("session", token.slice(0, at) + token.slice(at + 1)), undefined);
    }
    for (const more of ["=", "A", ".", "\n", "%"]) {
      assert.equal(seal.open("session", token + more), undefined);
      assert.equal(seal.open("session", more + token), undefined);
    }
  });

  it("cannot be guessed", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
        assert.equal(seal.open("session", text), undefined);
      }),
      { numRuns: 200 },
    );
    for (const text of ["", ".", "..", "e30.", ".e30", "e30.e30"]) {
      assert.equal(seal.open("session", text), undefined);
    }
  });
});

describe("the secret of a data folder", () => {
  it("is created once, random and readable only by its owner, and kept across restarts", async (t) => {
    const folder = temporaryFolder(t);
    const secret = readOrCreateSecret(folder);
    assert.match(secret, /^[0-9a-f]{64}$/);
    assert.equal(readOrCreateSecret(folder), secret);
    assert.deepEqual(readdirSync(folder), ["secret"]);
    assert.equal(statSync(join(folder, "secret")).mode & 0o777, 0o600);
    assert.notEqual(readOrCreateSecret(temporaryFolder(t)), secret);
    const code = `
      const { createSeal, readOrCreateSecret } = await import(${JSON.stringify(sourceUrl("src/store/seal.ts"))});
      console.log(createSeal(readOrCreateSecret(${JSON.stringify(folder)})).seal("session", { a: 1 }, 5));`;
    const { out } = await runModule(code);
    const opened = createSeal(secret).open("session", out.trim());
    assert.deepEqual(opened, { value: { a: 1 }, expiresAt: 5 });
  });

  it("is the same for two processes that start at once", async (t) => {
    const folder = temporaryFolder(t);
    const code = `
      const { readOrCreateSecret } = await import(${JSON.stringify(sourceUrl("src/store/seal.ts"))});
      console.log(readOrCreateSecret(${JSON.stringify(folder)}));`;
    const both = await Promise.all([runModule(code), runModule(code)]);
    const secret = readFileSync(join(folder, "secret"), "utf8");
    assert.deepEqual(
      both.map(({ out }) => out.trim()),
      [secret, secret],
    );
    assert.deepEqual(readdirSync(folder), ["secret"]);
  });

  it("is refused if the file is too short", (t) => {
    const folder = temporaryFolder(t);
    for (const text of ["", "\n", "short"]) {
      writeFileSync(join(folder, "secret"), text);
      assert.throws(
        () => readOrCreateSecret(folder),
        (error) => error instanceof StoreError && error.code === "SLUICE_STORE_CORRUPT",
      );
    }
  });

  it("reports what is wrong with a folder in which it cannot be stored", (t) => {
    assert.throws(
      () => readOrCreateSecret(join(temporaryFolder(t), "nowhere")),
      (error) => error instanceof StoreError && error.remedy !== "",
    );
  });
});

describe("a key of the deployment", () => {
  it("depends on the secret and the purpose, and never changes", () => {
    const key = createSeal("one secret").key("a purpose");
    const known = createHmac("sha256", "one secret").update("a purpose").digest();
    assert.deepEqual(key, known);
    assert.notDeepEqual(createSeal("another secret").key("a purpose"), key);
    assert.notDeepEqual(createSeal("one secret").key("another purpose"), key);
  });
});
