import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createRuntime,
  type Runtime,
} from "../../../../../plugins/ledger/ledger/decode/runtime.ts";
import { compactBytes, makeMetadata, type MadeType } from "./make-metadata.ts";

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
