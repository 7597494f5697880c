import assert from "node:assert/strict";
import { test } from "node:test";
import { accountJson, accountKey } from "../../../../../plugins/ledger/ledger/decode/account.ts";
import {
  eventsJson,
  extrinsicsJson,
} from "../../../../../plugins/ledger/ledger/decode/block-parts.ts";
import {
  createRuntime,
  type Runtime,
} from "../../../../../plugins/ledger/ledger/decode/runtime.ts";
import { summarise } from "../../../../../plugins/ledger/ledger/decode/decoder.ts";
import { compactBytes, makeMetadata, type MadeType } from "./make-metadata.ts";

const type = {
  u8: 0,
  u32: 1,
  u128: 2,
  text: 3,
  bytes20: 4,
  id20: 5,
  signature: 6,
  extension: 7,
  calls: 8,
  call: 9,
  phase: 10,
  events: 11,
  event: 12,
  topics: 13,
  record: 14,
  records: 15,
  data: 16,
  info: 17,
  hash: 18,
} as const;

/** A chain with 20-byte accounts, 65-byte signatures, an unknown extension, and a pallet with an unusual name. */
const types: readonly MadeType[] = [
  { primitive: 3 },
  { primitive: 5 },
  { primitive: 7 },
  { primitive: 2 },
  { array: type.u8, length: 20 },
  { composite: [[undefined, type.bytes20]], path: "AccountId20" },
  { array: type.u8, length: 65 },
  { composite: [["note", type.text]] },
  {
    variant: [
      [
        5,
        "say",
        [
          ["what", type.text],
          ["to", type.id20],
        ],
      ],
      [6, "nest", [["call", type.call]]],
    ],
  },
  { variant: [[7, 'Odd"Pället', [[undefined, type.calls]]]] },
  {
    variant: [
      [0, "ApplyExtrinsic", [[undefined, type.u32]]],
      [2, "Initialization", []],
    ],
  },
  { variant: [[1, "Said", [["what", type.text]]]] },
  { variant: [[7, 'Odd"Pället', [[undefined, type.events]]]] },
  { sequence: type.hash },
  {
    composite: [
      ["phase", type.phase],
      ["event", type.event],
      ["topics", type.topics],
    ],
  },
  { sequence: type.record },
  {
    composite: [
      ["free", type.u128],
      ["reserved", type.u128],
      ["frozen", type.u128],
      ["flags", type.u128],
    ],
  },
  {
    composite: [
      ["nonce", type.u32],
      ["consumers", type.u32],
      ["providers", type.u32],
      ["sufficients", type.u32],
      ["data", type.data],
    ],
  },
  { array: type.u8, length: 32 },
];

const made = {
  types,
  pallets: [
    { name: 'Odd"Pället', index: 7, calls: type.calls },
    {
      name: "System",
      index: 0,
      storage: [
        ["Events", undefined, type.records],
        ["Account", { hasher: 2, key: type.id20 }, type.info],
      ] as const,
    },
  ],
  extrinsic: {
    address: type.id20,
    call: type.call,
    signature: type.signature,
    extra: type.extension,
  },
  extensions: [type.extension],
};

function runtimeOf(metadata: Buffer): Runtime {
  const runtime = createRuntime(metadata);
  assert(runtime !== undefined);
  return runtime;
}

const runtime = runtimeOf(makeMetadata(made));
const id = "11".repeat(20);
const address = `0x${id}`;
const say = `0705 0c616263 ${id}`.replaceAll(" ", "");
const note = "08 6869".replaceAll(" ", "");
const odd = 'Odd"Pället';

function prefixed(hex: string): string {
  const bytes = Buffer.from(hex.replaceAll(" ", ""), "hex");
  return `0x${compactBytes(bytes.length).toString("hex")}${bytes.toString("hex")}`;
}

function decoded(raw: string): {
  pallet: string;
  method: string;
  args: string;
  isSigned: boolean;
  raw: string;
} {
  const [item] = JSON.parse(extrinsicsJson(runtime, JSON.stringify([raw])) ?? "[]");
  return item;
}

const kinds: readonly (readonly [string, string, boolean])[] = [
  ["bare, version 4", "04", false],
  ["bare, version 5", "05", false],
  [
    "signed, with 20-byte address and an extension that nobody knows",
    `84 ${id} ${"22".repeat(65)} ${note}`,
    true,
  ],
  ["general, version 0 of the extensions", `45 00 ${note}`, false],
];
for (const [name, preamble, isSigned] of kinds) {
  test(`an extrinsic that is ${name}`, () => {
    const raw = prefixed(preamble + say);
    const expected = {
      index: 0,
      pallet: odd,
      method: "say",
      args: `0x${say.slice(4)}`,
      isSigned,
      raw,
    };
    assert.deepEqual(decoded(raw), expected);
    for (const text of [raw.slice(0, -2), `${raw}00`, prefixed(`${preamble}${say}00`)]) {
      assert.equal(decoded(text).pallet, "unknown", "an argument short, or a byte too many");
    }
  });
}

test("kinds, versions, pallets and calls that do not exist are unknown", () => {
  const unknown = ["", "00", "03", "06", "44", "85", "c4", "c5", `45 01 ${note}`].map(
    (head) => head + say,
  );
  unknown.push("04", "0407", "040705", "04ff05", "040704", `04 0706 0706 0706`);
  for (const hex of unknown) assert.equal(decoded(prefixed(hex)).method, "unknown", hex);
});

test("white space in the node's JSON is ignored, and JSON that is not a list is refused", () => {
  const raw = prefixed(`04${say}`);
  const spaced = extrinsicsJson(runtime, ` [ "${raw}" ,\n"${raw}"\t]`);
  assert.equal(spaced, extrinsicsJson(runtime, JSON.stringify([raw, raw])));
  assert.equal(extrinsicsJson(runtime, "[ ]"), "[]");
  for (const text of [
    "",
    "{}",
    "null",
    "[",
    `["${raw}"`,
    `["${raw}",]`,
    `["${raw}" "${raw}"]`,
    '["',
    "[1]",
  ]) {
    assert.equal(extrinsicsJson(runtime, text), undefined, text);
  }
});

test("with metadata without an address type, signed extrinsics are unknown and bare ones are read", () => {
  const bare = runtimeOf(makeMetadata({ types, pallets: made.pallets }));
  const list = JSON.stringify([
    prefixed(`04${say}`),
    prefixed(`84${id}${"22".repeat(65)}${note}${say}`),
  ]);
  const methods = JSON.parse(extrinsicsJson(bare, list) ?? "[]").map(
    (item: { method: string }) => item.method,
  );
  assert.deepEqual(methods, ["say", "unknown"]);
});

test("events carry their phase as text", () => {
  const hex = "0x08 00 03000000 07 01 0461 00 02 07 01 00 00".replaceAll(" ", "");
  assert.deepEqual(JSON.parse(eventsJson(runtime, hex) ?? "[]"), [
    { index: 0, phase: "ApplyExtrinsic(3)", pallet: odd, event: "Said", data: "0x0461" },
    { index: 1, phase: "Initialization", pallet: odd, event: "Said", data: "0x00" },
  ]);
  assert.equal(eventsJson(runtime, undefined), "[]");
  for (const wrong of [
    "",
    "0x",
    `${hex}00`,
    hex.slice(0, -2),
    hex.replace("0x08", "0x0c"),
    "0x04010701",
    "0xzz",
  ]) {
    assert.equal(eventsJson(runtime, wrong), undefined, wrong);
  }
});

test("frozen balances are reported in both fields", () => {
  const words = [1, 2, 3, 4].map((n) => `0${n}000000`).join("");
  const balance = (n: number): string => n.toString(16).padStart(2, "0").padEnd(32, "0");
  const max = "ff".repeat(16);
  const hex = `0x${words}${max}${balance(8)}${balance(9)}${balance(0)}`;
  assert.deepEqual(JSON.parse(accountJson(runtime, hex) ?? "{}"), {
    nonce: 1,
    consumers: 2,
    providers: 3,
    sufficients: 4,
    data: {
      free: "340282366920938463463374607431768211455",
      reserved: "8",
      miscFrozen: "9",
      feeFrozen: "9",
    },
  });
  for (const wrong of [hex.slice(0, -2), `${hex}00`, "0x", "0xzz", ""]) {
    assert.equal(accountJson(runtime, wrong), undefined);
  }
});

test("accounts are looked up with the metadata's hasher, and ids of another length are refused", () => {
  const key = accountKey(runtime, Buffer.from(id, "hex"));
  assert.match(
    String(key),
    /^0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9[\da-f]{32}(11){20}$/,
  );
  assert.equal(accountKey(runtime, new Uint8Array(32)), undefined);
  assert.equal(
    accountKey(runtimeOf(makeMetadata({ types, pallets: [] })), new Uint8Array(32)),
    null,
  );
});

test("a summary names the signer, the call and its arguments", () => {
  const raw = prefixed(`84${id}${"22".repeat(65)}${note}0706${say}`);
  assert.deepEqual(summarise(runtime, Buffer.from(raw.slice(2), "hex")), {
    pallet: odd,
    method: "nest",
    signer: address,
    args: { call: { pallet: odd, method: "say", args: { what: "abc", to: address } } },
  });
  const bare = summarise(runtime, Buffer.from(prefixed(`05${say}`).slice(2), "hex"));
  assert.equal(bare?.signer, null);
  assert.equal(summarise(runtime, Buffer.from("00", "hex")), undefined);
});
