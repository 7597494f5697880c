/** Tests of hexadecimal text, storage keys, addresses (as of @polkadot/util-crypto) and the lengths of values. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  blake2AsU8a,
  xxhashAsU8a,
  decodeAddress,
  encodeAddress,
  ethereumEncode,
} from "@polkadot/util-crypto";
import * as fc from "fast-check";
import { hexBytes } from "../../../../../plugins/ledger/ledger/decode/hex.ts";
import type { Hasher } from "../../../../../plugins/ledger/ledger/decode/metadata.ts";
import {
  createRuntime,
  type Runtime,
} from "../../../../../plugins/ledger/ledger/decode/runtime.ts";
import { accountIdOf, addressOf } from "../../../../../plugins/ledger/ledger/decode/ss58.ts";
import { hashKey, storagePrefix } from "../../../../../plugins/ledger/ledger/decode/storage-key.ts";
import { compactBytes, makeMetadata, type MadeType } from "./make-metadata.ts";

const copied = (text: string, start = 0, end = text.length): string | undefined =>
  hexBytes(text, start, end)?.toString("hex");

test("hex of any length and case, at any index of a text, is decoded as by Buffer", () => {
  const hex = fc.uint8Array({ maxLength: 70 }).map((bytes) => Buffer.from(bytes).toString("hex"));
  const cased = fc
    .tuple(hex, fc.nat(255))
    .map(([text, mask]) =>
      Array.from(text, (digit, at) => ((mask >> (at % 8)) & 1 ? digit.toUpperCase() : digit)).join(
        "",
      ),
    );
  fc.assert(
    fc.property(fc.string(), cased, fc.string(), (before, text, behind) => {
      const found = copied(before + text + behind, before.length, before.length + text.length);
      assert.equal(found, text.toLowerCase());
    }),
  );
});

test("text with a character that is not a hex digit is refused, at any index", () => {
  const wrong = fc.constantFrom("g", "G", "/", ":", "@", "`", " ", "\0", "x", "é", "İ", "ı", "漢");
  fc.assert(
    fc.property(fc.nat(40), fc.nat(40), wrong, (before, behind, one) => {
      const text = "a".repeat(before) + one + "0".repeat(behind);
      assert.equal(copied(text), undefined);
    }),
  );
  assert.equal(copied("abc"), undefined);
  assert.equal(copied(""), "");
});

test("values longer than the reused buffer are decoded, too", () => {
  const long = "0f".repeat((1 << 20) + 1);
  assert.equal(copied(long), long);
  assert.equal(copied(`${long.slice(2)}0g`), undefined);
  assert.equal(copied(long.slice(2)), long.slice(2));
});

const judges: Readonly<Record<Hasher, (key: Uint8Array) => Uint8Array>> = {
  blake2_128: (key) => blake2AsU8a(key, 128),
  blake2_256: (key) => blake2AsU8a(key, 256),
  blake2_128_concat: (key) => Buffer.concat([blake2AsU8a(key, 128), key]),
  twox_128: (key) => xxhashAsU8a(key, 128),
  twox_256: (key) => xxhashAsU8a(key, 256),
  twox_64_concat: (key) => Buffer.concat([xxhashAsU8a(key, 64), key]),
  identity: (key) => key,
};

for (const [hasher, judge] of Object.entries(judges)) {
  test(`${hasher} is @polkadot/util-crypto's, at every length up to 100`, () => {
    for (let length = 0; length <= 100; length++) {
      const key = Uint8Array.from({ length }, (_, i) => (i * 151 + length * 31) & 255);
      // The keys of the table are hashers.
      assert.deepEqual(hashKey(hasher as Hasher, key), Buffer.from(judge(key)));
    }
  });
}

test("the key of System.Events is the one that every Substrate chain has", () => {
  assert.equal(
    storagePrefix("System", "Events").toString("hex"),
    "26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7",
  );
});

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

const u8 = { primitive: 3 };
const u32 = { primitive: 5 };

function runtimeWith(types: readonly MadeType[]): Runtime {
  const runtime = createRuntime(makeMetadata({ types, pallets: [] }));
  assert(runtime !== undefined);
  return runtime;
}

/** Returns the position in the bytes where a value of the last type ends. Undefined if there is no such value. */
function reach(types: readonly MadeType[], hex: string): number | undefined {
  const bytes = Buffer.from(hex.replaceAll(" ", ""), "hex");
  const next = runtimeWith(types).skip(types.length - 1, bytes, 0);
  return next < 0 ? undefined : next;
}

const text = { primitive: 2 };
const huge = 2 ** 32 - 1;
const fixed = { composite: [["a", 0] as const, ["b", 1] as const] };
const sparse = { variant: [[3, "C", []] as const] };
const nested = (more: number): MadeType => ({
  variant: [
    [0, "End", []],
    [1, "More", [[undefined, more]]],
  ],
});
const cases: readonly (readonly [string, readonly MadeType[], string, number | undefined])[] = [
  ["a composite of fixed fields", [u8, u32, fixed], "01 02000000 ff", 5],
  ["a value cut short", [u8, u32, fixed], "01 020000", undefined],
  ["an empty composite", [{ composite: [] }], "", 0],
  ["a variant without fields", [sparse], "03", 1],
  ["a variant index in a hole", [sparse], "02", undefined],
  ["a variant index above all", [sparse], "04", undefined],
  ["no variant at all", [{ variant: [] }], "00", undefined],
  ["an enum at the end of the bytes", [{ variant: [[0, "A", []]] }], "", undefined],
  ["a text", [text], "0c 616263 ff", 4],
  ["a list of fixed elements", [u32, { sequence: 0 }], "08 01000000 02000000", 9],
  ["a list longer than the bytes", [u32, { sequence: 0 }], "0c 01000000 02000000", undefined],
  ["four billion elements", [u32, { sequence: 0 }], "03 ffffffff", undefined],
  ["four billion elements of no size", [{ tuple: [] }, { sequence: 0 }], "03 ffffffff", 5],
  ["four billion texts", [text, { sequence: 0 }], "03 ffffffff 00", undefined],
  ["an array", [u8, { array: 0, length: 3 }], "010203 04", 3],
  ["an array of texts", [text, { array: 0, length: 2 }], "04 61 00", 3],
  ["an array of four billion texts", [text, { array: 0, length: huge }], "00 00", undefined],
  ["huge arrays", [u8, { array: 0, length: huge }, { array: 1, length: huge }], "00", undefined],
  ["a compact of one byte", [u32, { compact: 0 }], "fc", 1],
  ["a compact of two bytes", [u32, { compact: 0 }], "0101", 2],
  ["a compact of four bytes", [u32, { compact: 0 }], "02000100", 4],
  ["a compact of five bytes", [u32, { compact: 0 }], "03 00000040", 5],
  ["a compact wider than its type", [u32, { compact: 0 }], "07 0000000001", undefined],
  ["a compact u8 above 255", [u8, { compact: 0 }], "0104", undefined],
  ["a compact u128 of 16 bytes", [{ primitive: 7 }, { compact: 0 }], `33 ${"ff".repeat(16)}`, 17],
  ["a compact in too long a form", [u32, { compact: 0 }], "0100", undefined],
  ["a compact of nothing", [{ tuple: [] }, { compact: 0 }], "", 0],
  ["a compact of a newtype", [u32, { composite: [[undefined, 0]] }, { compact: 1 }], "0101", 2],
  ["bits in bytes", [u8, { bits: 0 }], "24 ff01", 3],
  ["bits in words", [u32, { bits: 0 }], "04 00000000", 5],
  ["bits in text", [text, { bits: 0 }], "04 00000000", undefined],
  ["a type that is itself", [{ composite: [["self", 0]] }], "00", undefined],
  ["a type that is itself twice", [{ tuple: [0, 0] }], "00", undefined],
  ["a list of its own kind", [{ sequence: 0 }], "08 00 04 00", 4],
  ["an enum that may hold itself", [nested(0)], "01 01 00", 3],
  ["a newtype of an enum that holds it", [nested(1), { composite: [["of", 0]] }], "01 01 00", 3],
];

for (const [name, types, hex, expected] of cases) {
  test(`${name} ends where it should`, () => assert.equal(reach(types, hex), expected));
}

test("unlimited nesting is refused", () => {
  assert.equal(reach([nested(0)], "01".repeat(100_000)), undefined);
  assert.equal(reach([{ sequence: 0 }], "04".repeat(100_000)), undefined);
});

test("metadata that is damaged, of another version or too long is refused", () => {
  const whole = makeMetadata({ types: [u8, { sequence: 0 }], pallets: [] });
  assert(createRuntime(whole) !== undefined);
  assert(createRuntime(whole.subarray(4)) !== undefined, "without the magic");
  for (let end = 0; end < whole.length; end++) {
    assert.equal(createRuntime(whole.subarray(0, end)), undefined);
  }
  assert.equal(createRuntime(Buffer.concat([whole, Buffer.from([0])])), undefined);
  for (const version of [0, 13, 16, 255]) {
    const other = Buffer.from(whole);
    other[4] = version;
    assert.equal(createRuntime(other), undefined);
  }
});

test("metadata that refers to a missing type is refused", () => {
  for (const type of [{ sequence: 9 }, { tuple: [9] }, { compact: 9 }, { composite: [["a", 9]] }]) {
    // Literals of MadeType, widened by the array.
    assert.equal(
      createRuntime(makeMetadata({ types: [type as MadeType], pallets: [] })),
      undefined,
    );
  }
  const pallets = [{ name: "P", index: 0, calls: 9 }];
  assert.equal(createRuntime(makeMetadata({ types: [u8], pallets })), undefined);
});

test("metadata with excessive lengths is refused without allocating memory", () => {
  const claims = Buffer.concat([Buffer.from("meta"), Buffer.from([14]), compactBytes(2 ** 30 - 1)]);
  assert.equal(createRuntime(claims), undefined);
});
