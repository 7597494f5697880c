import assert from "node:assert/strict";
import { test } from "node:test";
import { blake2AsHex } from "@polkadot/util-crypto";
import { accountJson } from "../../../../../plugins/ledger/ledger/decode/account.ts";
import { eventsJson } from "../../../../../plugins/ledger/ledger/decode/events.ts";
import { extrinsicsJson } from "../../../../../plugins/ledger/ledger/decode/extrinsics.ts";
import {
  createRuntime,
  type Runtime,
} from "../../../../../plugins/ledger/ledger/decode/runtime.ts";
import {
  broken,
  compactResult,
  readCompact,
} from "../../../../../plugins/ledger/ledger/decode/scale.ts";
import { skip } from "../../../../../plugins/ledger/ledger/decode/shape.ts";
import {
  demoChain,
  fixture,
  fixtureBytes,
  fixtureChain,
  fixtureSets,
  skipWithoutFixtures,
  upgradeBlocks,
  type Chain,
} from "./chains.ts";
import { referenceDecoder } from "./polkadot-reference.ts";
import { compactBytes } from "./make-metadata.ts";

function runtimeOf(metadata: string): Runtime {
  const runtime = createRuntime(Buffer.from(metadata.slice(2), "hex"));
  assert(runtime !== undefined);
  return runtime;
}

/** Compares the text of every extrinsic and event of the blocks. */
function compare(chain: Chain): void {
  const runtime = runtimeOf(chain.metadata);
  const judge = referenceDecoder(chain.metadata);
  let items = 0;
  for (const { number, result, events } of chain.blocks) {
    const { extrinsics } = result.block;
    const expected = extrinsics.map((raw, index) => judge.extrinsic(raw, index));
    const said = extrinsicsJson(runtime, JSON.stringify(extrinsics));
    assert.equal(said, JSON.stringify(expected), `extrinsics of block ${number}`);
    items += expected.length;
    if (events === null) continue;
    const happened = judge.events(events);
    assert.equal(eventsJson(runtime, events), JSON.stringify(happened), `events of ${number}`);
    items += happened.length;
  }
  assert(items > 6);
}

test("the demo's blocks read as @polkadot/types reads them", () => compare(demoChain()));

for (const set of fixtureSets) {
  for (const version of [14, 15] as const) {
    test(
      `${set} with metadata ${version} reads as @polkadot/types reads it`,
      {
        skip: skipWithoutFixtures,
      },
      () => compare(fixtureChain(set, version)),
    );
  }
}

test("signed extrinsics converted to general ones of version 5 are read as by @polkadot/types", () => {
  const { metadata, blocks } = demoChain();
  const runtime = runtimeOf(metadata);
  const judge = referenceDecoder(metadata);
  const { address, signature } = runtime.preamble;
  assert(address !== undefined && signature !== undefined);
  let compared = 0;
  for (const raw of blocks.flatMap(({ result }) => result.block.extrinsics)) {
    const bytes = Buffer.from(raw.slice(2), "hex");
    assert(readCompact(bytes, 0, bytes.length));
    const start = compactResult.next;
    if (bytes[start] !== 0x84) continue;
    const signatureAt = skip(address, bytes, start + 1, bytes.length);
    const extensionsAt = skip(signature, bytes, signatureAt, bytes.length);
    const body = Buffer.concat([Buffer.from([0x45, 0]), bytes.subarray(extensionsAt)]);
    const general = `0x${Buffer.concat([compactBytes(body.length), body]).toString("hex")}`;
    const expected = JSON.stringify([judge.extrinsic(general, 0)]);
    assert.equal(extrinsicsJson(runtime, JSON.stringify([general])), expected);
    compared++;
  }
  assert(compared > 20);
});

test("exactly the two-byte eras that @polkadot/types accepts are accepted", () => {
  const { metadata } = demoChain();
  const runtime = runtimeOf(metadata);
  const { registry } = referenceDecoder(metadata);
  const era = runtime.metadata.types.findIndex(({ path }) => path === "Era");
  assert(era >= 0);
  const takes = (bytes: Uint8Array): number => {
    try {
      return registry.createType("ExtrinsicEra", bytes).encodedLength;
    } catch {
      return broken;
    }
  };
  let refused = 0;
  for (let code = 0; code < 65_536; code++) {
    const bytes = Uint8Array.of(code & 0xff, code >> 8);
    const end = runtime.skip(era, bytes, 0);
    if (end !== takes(bytes)) assert.fail(`${Buffer.from(bytes).toString("hex")}: ${end}`);
    if (end === broken) refused++;
  }
  assert(refused > 10_000);
  assert.equal(runtime.skip(era, Uint8Array.of(1), 0), broken);
  assert.equal(runtime.skip(era, new Uint8Array(), 0), broken);
});

interface Expected {
  readonly blocks: readonly {
    readonly number: number;
    readonly decodedExtrinsics: readonly {
      readonly index: number;
      readonly palletName: string;
      readonly methodName: string;
      readonly args: string | { readonly length: number; readonly blake2_256: string };
      readonly isSigned: boolean;
    }[];
    readonly events:
      | readonly {
          readonly index: number;
          readonly phase: string;
          readonly extrinsicIndex?: number;
          readonly palletName: string;
          readonly event: string;
          readonly data: string;
        }[]
      | null;
  }[];
}

/** The decoded values on which two other decoders agreed when the chains were recorded. */
function compareExpected(
  set: string,
  runtime: Runtime,
  blocks: readonly { number: number; extrinsics: readonly string[]; events: string | null }[],
): void {
  const expected = JSON.parse(fixture(`${set}/expected.json`)) as Expected;
  let compared = 0;
  for (const block of blocks) {
    const entry = expected.blocks.find(({ number }) => number === block.number);
    if (entry === undefined) continue;
    compared++;
    const said = JSON.parse(extrinsicsJson(runtime, JSON.stringify(block.extrinsics)) ?? "null");
    const decoded = entry.decodedExtrinsics.map((each) => ({
      index: each.index,
      pallet: each.palletName,
      method: each.methodName,
      args: typeof each.args === "string" ? each.args : digested(each.args, said[each.index].args),
      isSigned: each.isSigned,
      raw: block.extrinsics[each.index],
    }));
    assert.deepEqual(said, decoded);
    if (entry.events === null || block.events === null) continue;
    const happened = entry.events.map(
      ({ index, phase, extrinsicIndex, palletName, event, data }) => ({
        index,
        phase: extrinsicIndex === undefined ? phase : `${phase}(${extrinsicIndex})`,
        pallet: palletName,
        event,
        data,
      }),
    );
    assert.equal(eventsJson(runtime, block.events), JSON.stringify(happened));
  }
  assert.equal(compared, expected.blocks.length);
}

/** Long arguments are recorded by their length and hash. */
function digested(
  { length, blake2_256 }: { length: number; blake2_256: string },
  args: string,
): string {
  const bytes = Buffer.from(args.slice(2), "hex");
  assert.equal(bytes.length, length);
  assert.equal(blake2AsHex(bytes, 256), blake2_256);
  return args;
}

const mainnet = "mainnet-polkadot-10000000";

/** Its metadata has no magic number. */
function mainnetRuntime(): { runtime: Runtime; metadata: string } {
  const bytes = fixtureBytes(`${mainnet}/metadata-v14-spec9180.scale`);
  const runtime = createRuntime(bytes);
  assert(runtime !== undefined);
  return { runtime, metadata: `0x6d657461${bytes.toString("hex")}` };
}

test("block 10 000 000 of Polkadot reads as recorded", { skip: skipWithoutFixtures }, () => {
  const extrinsics = JSON.parse(fixture(`${mainnet}/extrinsics.json`)) as string[];
  compareExpected(mainnet, mainnetRuntime().runtime, [
    { number: 10_000_000, extrinsics, events: null },
  ]);
});

test(
  "accounts of Polkadot read as @polkadot/types reads them",
  { skip: skipWithoutFixtures },
  () => {
    const { runtime, metadata } = mainnetRuntime();
    const { registry } = referenceDecoder(metadata);
    const pairs = JSON.parse(fixture(`${mainnet}/system_account.json`)) as [string, string][];
    assert(pairs.length > 50);
    for (const [, value] of pairs) {
      const info = registry.createType("FrameSystemAccountInfo", value);
      assert.deepEqual(JSON.parse(accountJson(runtime, value) ?? "null"), plainAccount(info));
    }
  },
);

for (const set of fixtureSets) {
  test(
    `accounts of ${set} read as @polkadot/types reads them`,
    { skip: skipWithoutFixtures },
    () => {
      const chain = fixtureChain(set, 14);
      const runtime = runtimeOf(chain.metadata);
      const { registry } = referenceDecoder(chain.metadata);
      let compared = 0;
      for (const { accounts } of chain.blocks) {
        for (const value of Object.values(accounts)) {
          if (value === null) continue;
          const info = registry.createType("FrameSystemAccountInfo", value);
          assert.deepEqual(JSON.parse(accountJson(runtime, value) ?? "null"), plainAccount(info));
          compared++;
        }
      }
      assert(compared > 20);
    },
  );
}

interface JudgedInfo extends Readonly<
  Record<"nonce" | "consumers" | "providers" | "sufficients", { toNumber(): number }>
> {
  readonly data?: Readonly<Record<string, { toString(): string } | undefined>>;
}

/** Converts a value of @polkadot/types to the members of ledger_getAccount. */
function plainAccount(struct: unknown): object {
  // FrameSystemAccountInfo: the fields are getters of the struct.
  const info = struct as JudgedInfo;
  const balance = (...names: string[]): string =>
    names.map((name) => info.data?.[name]?.toString()).find((text) => text !== undefined) ?? "0";
  return {
    nonce: info.nonce.toNumber(),
    consumers: info.consumers.toNumber(),
    providers: info.providers.toNumber(),
    sufficients: info.sufficients.toNumber(),
    data: {
      free: balance("free"),
      reserved: balance("reserved"),
      miscFrozen: balance("miscFrozen", "frozen"),
      feeFrozen: balance("feeFrozen", "frozen"),
    },
  };
}

test(
  "the block that upgrades the runtime is read with the old runtime",
  { skip: skipWithoutFixtures },
  () => {
    const old = fixture("midnight-stub/metadata-v14.hex");
    const [upgrade] = upgradeBlocks();
    assert(upgrade !== undefined);
    compare({
      ...fixtureChain("midnight-stub", 14),
      metadata: old,
      blocks: [upgrade],
    });
  },
);
