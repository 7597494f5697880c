import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeAddress, encodeAddress, ethereumEncode } from "@polkadot/util-crypto";
import * as fc from "fast-check";
import { accountIdOf, addressOf } from "../../../../../plugins/ledger/ledger/decode/ss58.ts";

const id32 = fc.uint8Array({ minLength: 32, maxLength: 32 });
const id20 = fc.uint8Array({ minLength: 20, maxLength: 20 });
/** 46 and 47 are reserved, so the reference refuses to write them. */
const prefix = fc.integer({ min: 0, max: 16383 }).filter((n) => n !== 46 && n !== 47);
const runs = { numRuns: 500 };

test("addresses of 32-byte ids are those of @polkadot/util-crypto, with every prefix", () => {
  fc.assert(
    fc.property(id32, prefix, (id, n) => {
      const address = encodeAddress(id, n);
      assert.equal(addressOf(id, n), address);
      assert.deepEqual(Buffer.from(accountIdOf(address) ?? []), Buffer.from(id));
    }),
    runs,
  );
});

test("ids that begin with zeros keep them", () => {
  for (const zeros of [1, 2, 31, 32]) {
    const id = new Uint8Array(32).fill(7).fill(0, 0, zeros);
    for (const n of [0, 42, 255]) {
      assert.equal(addressOf(id, n), encodeAddress(id, n));
      assert.deepEqual(Buffer.from(accountIdOf(encodeAddress(id, n)) ?? []), Buffer.from(id));
    }
  }
});

test("a changed, missing or added character is refused, as @polkadot/util-crypto refuses it", () => {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0OIl \u00e9";
  const change = fc.tuple(id32, prefix, fc.nat(), fc.nat({ max: digits.length - 1 }), fc.nat(2));
  fc.assert(
    fc.property(change, ([id, n, place, digit, kind]) => {
      const address = encodeAddress(id, n);
      const at = place % address.length;
      const changed =
        address.slice(0, at) +
        (kind === 0 ? "" : digits[digit]) +
        address.slice(kind === 1 ? at : at + 1);
      if (changed === address) return;
      const ours = accountIdOf(changed);
      const judge = judged(changed);
      // If both accept it, the checksum fits by chance, and then the ids are equal.
      if (ours !== undefined && ours.length === 32) assert.deepEqual(Buffer.from(ours), judge);
      if (judge === undefined) assert.equal(ours, undefined);
    }),
    runs,
  );
});

function judged(address: string): Buffer | undefined {
  try {
    return Buffer.from(decodeAddress(address));
  } catch {
    return undefined;
  }
}

test("20-byte ids use Ethereum's format, and are read in a single case or with a valid checksum", () => {
  fc.assert(
    fc.property(id20, (id) => {
      const address = addressOf(id, 42);
      assert.equal(address, ethereumEncode(id));
      const lower = address.toLowerCase();
      for (const spelling of [address, lower, `0x${lower.slice(2).toUpperCase()}`]) {
        assert.deepEqual(Buffer.from(accountIdOf(spelling) ?? []), Buffer.from(id));
      }
    }),
    { numRuns: 100 },
  );
  const right = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
  assert.notEqual(accountIdOf(right), undefined);
  assert.equal(accountIdOf(right.replace("aAeb", "aaeb")), undefined);
});

test("a public key in hex is its own id", () => {
  const hex = "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d";
  assert.equal(Buffer.from(accountIdOf(`0x${hex}`) ?? []).toString("hex"), hex);
});

test("text that is not an address is refused", () => {
  const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";
  const wrong = ["", " ", "5", "0x", "0x1", "0xzz", `0x${"0".repeat(41)}`, `0x${"g".repeat(40)}`];
  wrong.push(` ${alice}`, `${alice}\n`, alice.toLowerCase(), `${alice}${alice}`, "1".repeat(49));
  wrong.push("z".repeat(100_000), "KWCv1L3QX9LDPwY4VzvLmarEmXjVJidUzZcinvVnmxAJJCBou");
  for (const address of wrong) assert.equal(accountIdOf(address), undefined, address.slice(0, 60));
});
