/** Recorded chains to decode: the demo's own, and those of ../shared, which is not part of the repository. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readRecording } from "../../../../../plugins/ledger/demo/recording.ts";
import { storagePrefix } from "../../../../../plugins/ledger/ledger/decode/storage-key.ts";

export interface ChainBlock {
  readonly number: number;
  readonly hash: string;
  /** The node's result of `chain_getBlock`. */
  readonly result: {
    readonly block: {
      readonly header: { readonly parentHash: string };
      readonly extrinsics: readonly string[];
    };
  };
  readonly events: string | null;
  /** System.Account values by the account's name. */
  readonly accounts: Readonly<Record<string, string | null>>;
}

export interface Chain {
  readonly name: string;
  /** Hex with `0x`, as `state_getMetadata` returns it. */
  readonly metadata: string;
  readonly runtimeVersion: { readonly specName: string; readonly specVersion: number };
  readonly blocks: readonly ChainBlock[];
}

export const eventsKey = `0x${storagePrefix("System", "Events").toString("hex")}`;

/** Real blocks that are in the repository. */
export function demoChain(): Chain {
  const recording = readRecording();
  const events = recording.storage[eventsKey] ?? [];
  return {
    name: "the demo's",
    metadata: recording.metadata,
    // The recording was made of a node's own answer.
    runtimeVersion: recording.runtimeVersion as Chain["runtimeVersion"],
    blocks: recording.blocks.map(({ hash, header, extrinsics }, number) => ({
      number,
      hash,
      result: { block: { header, extrinsics }, justifications: null },
      events: events.findLast(([from]) => from <= number)?.[1] ?? null,
      accounts: {},
    })),
  };
}

const folder = fileURLToPath(new URL("../../../../../../shared/fixtures/chain/", import.meta.url));

export const skipWithoutFixtures =
  process.env["CI"] !== "true" && !existsSync(folder) ? "needs ../shared" : false;

export function fixture(path: string): string {
  return fixtureBytes(path).toString("latin1").trim();
}

export function fixtureBytes(path: string): Buffer {
  return readFileSync(`${folder}${path}`);
}

interface ChainFile {
  readonly runtimeVersion: Chain["runtimeVersion"];
  readonly blocks: readonly {
    readonly number: number;
    readonly hash: string;
    readonly block: ChainBlock["result"];
    readonly events: string | null;
    readonly accounts?: ChainBlock["accounts"];
  }[];
}

export const fixtureSets = ["westend-dev", "polkadot-coretime", "midnight-stub"] as const;

export function fixtureChain(set: (typeof fixtureSets)[number], version: 14 | 15): Chain {
  const file = JSON.parse(fixture(`${set}/chain.json`)) as ChainFile;
  return {
    name: `${set}, metadata ${version}`,
    metadata: fixture(`${set}/metadata-v${version}.hex`),
    runtimeVersion: file.runtimeVersion,
    blocks: file.blocks.map((block) => ({
      ...block,
      result: block.block,
      accounts: block.accounts ?? {},
    })),
  };
}

/** Blocks 8 to 10 of midnight-stub: a runtime upgrade, and the blocks after it. (Block 7 of the file is truncated.) */
export function upgradeBlocks(): readonly (ChainBlock & { readonly specVersionAtHash: number })[] {
  const file = JSON.parse(fixture("midnight-stub/upgrade.json")) as {
    readonly blocks: readonly (ChainFile["blocks"][number] & { specVersionAtHash: number })[];
  };
  return file.blocks
    .filter(({ number }) => number > 7)
    .map((block) => ({ ...block, result: block.block, accounts: {} }));
}
