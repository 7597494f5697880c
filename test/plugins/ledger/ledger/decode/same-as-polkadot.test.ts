import assert from "node:assert/strict";
import { test } from "node:test";

import { accountJson } from "../../../../../plugins/ledger/ledger/decode/account.ts";
import {
  eventsJson,
  extrinsicsJson,
} from "../../../../../plugins/ledger/ledger/decode/block-parts.ts";
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
  type Chain,
} from "./chains.ts";
import { referenceDecoder } from "./polkadot-reference.ts";
import { compactBytes } from "./make-metadata.ts";

function runtimeOf(metadata: string): Runtime {
  const runtime = createRuntime(Buffer.from(metadata.slice(2), "hex"));
  assert(runtime !== undefined);
  return runtime;
}

function compare(chain: Chain, least = 7): void {
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
  assert(items >= least);
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

const mainnet = "mainnet-polkadot-10000000";

/** Its metadata has no magic number. */
function mainnetChain(): Chain {
  const metadata = fixtureBytes(`${mainnet}/metadata-v14-spec9180.scale`).toString("hex");
  const runtimeVersion = { specName: "polkadot", specVersion: 9180 };
  return { name: mainnet, metadata: `0x6d657461${metadata}`, runtimeVersion, blocks: [] };
}

test(
  "block 10 000 000 of Polkadot reads as @polkadot/types reads it",
  { skip: skipWithoutFixtures },
  () => {
    const extrinsics = JSON.parse(fixture(`${mainnet}/extrinsics.json`)) as string[];
    const result = { block: { header: { parentHash: "" }, extrinsics } };
    const block = { number: 10_000_000, hash: "", result, events: null, accounts: {} };
    compare({ ...mainnetChain(), blocks: [block] }, extrinsics.length);
  },
);

test(
  "accounts of Polkadot read as @polkadot/types reads them",
  { skip: skipWithoutFixtures },
  () => {
    const { metadata } = mainnetChain();
    const runtime = runtimeOf(metadata);
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
