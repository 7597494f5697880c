/**
 * Makes plugins/ledger/demo/recording.json.br, which the demo node replays: `node .ci/record-demo.ts`,
 * with `../shared` next to the project. Prints what it wrote. The same input gives the same bytes.
 *
 * The blocks are those of ../shared/fixtures/chain/polkadot-coretime. The real runtime (chopsticks, offline) executes
 * their signed extrinsics again, which must give the same hashes. This adds what the fixture lacks: the whole state
 * after every block. Block numbers are written as a production node does ("0x1").
 */
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { brotliCompressSync, constants } from "node:zlib";
import { setupWithServer } from "@acala-network/chopsticks";
import { parse } from "yaml";
import type { Recording, StorageHistory } from "../plugins/ledger/demo/recording.ts";

const shared = new URL("../../shared/fixtures/", import.meta.url);
const codeKey = "0x3a636f6465";
/**
 * The time of a block is derived from its parent's. Block 1 has no parent with a time, so the clock of this script must
 * be set to the fixture's time.
 */
const slotMs = 12_000;

type Hex = `0x${string}`;
interface FixtureBlock {
  readonly number: number;
  readonly hash: Hex;
  readonly block: { readonly block: { readonly header: Header; readonly extrinsics: Hex[] } };
  readonly events: Hex | null;
  readonly timestampNow: Hex | null;
  readonly accounts: Readonly<Record<string, Hex | null>>;
}
type Header = Recording["blocks"][number]["header"];
interface Fixture {
  readonly genesisHash: Hex;
  readonly runtimeVersion: Recording["runtimeVersion"];
  readonly system_properties: Recording["properties"];
  readonly keys: Record<"System.Events" | "Timestamp.Now", Hex> & {
    readonly "System.Account": Readonly<Record<string, Hex>>;
  };
  readonly blocks: readonly FixtureBlock[];
}

async function readJson(path: string): Promise<unknown> {
  return JSON.parse(await readFile(new URL(path, shared), "utf8"));
}

/** Throws if the results differ from those of the fixture. */
async function record(): Promise<Recording> {
  // The README of the fixtures describes the shapes of the three files.
  const fixture = (await readJson("chain/polkadot-coretime/chain.json")) as Fixture;
  const spec = (await readJson("specs/polkadot-coretime.json")) as {
    genesis: { raw: { top: Record<string, Hex> } };
  };
  const settings = parse(
    await readFile(new URL("specs/polkadot-coretime.yml", shared), "utf8"),
  ) as Record<string, unknown>;
  const first = fixture.blocks[1]?.timestampNow;
  if (first === null || first === undefined) throw new Error("block 1 of the fixture has no time");
  const firstMs = Number(Buffer.from(first.slice(2), "hex").readBigUInt64LE());
  Date.now = () => firstMs - slotMs;

  const node = await setupWithServer({
    ...settings,
    port: 0,
    host: "127.0.0.1",
    "chain-spec": spec,
    // chopsticks does not export the type of its configuration.
  } as unknown as Parameters<typeof setupWithServer>[0]);
  const { chain } = node;
  const registry = await chain.head.registry;
  const hash = (hex: Hex): string => registry.hash(Buffer.from(hex.slice(2), "hex")).toHex();

  const storage: Record<string, StorageHistory> = {};
  const changed = (key: string, block: number, value: Hex | null) => {
    if ((storage[key]?.at(-1)?.[1] ?? null) === value) return;
    (storage[key] ??= []).push(value === null ? [block, null] : [block, value, hash(value)]);
  };

  const { [codeKey]: code, ...genesis } = spec.genesis.raw.top;
  if (code === undefined) throw new Error("the specification has no runtime");
  for (const [key, value] of Object.entries(genesis)) changed(key, 0, value);
  for (const block of fixture.blocks.slice(1)) {
    // chopsticks itself builds block 1, with the accounts of its settings.
    if (block.number > 1) {
      await chain.newBlock({ transactions: block.block.block.extrinsics.slice(2) });
    }
    if (chain.head.hash !== block.hash) throw new Error(`block ${block.number} came out different`);
    for (const [key, value] of Object.entries(await chain.head.storageDiff())) {
      changed(key, block.number, value);
    }
    check(fixture, block, storage);
  }

  const calls: Record<string, Record<string, string>> = {};
  for (const [name, data] of [
    ["Core_version", "0x"],
    ["Metadata_metadata_versions", "0x"],
    ["Metadata_metadata_at_version", "0x0e000000"],
    ["Metadata_metadata_at_version", "0x0f000000"],
    ["Metadata_metadata_at_version", "0x10000000"],
    ["AuraApi_slot_duration", "0x"],
  ] as const) {
    (calls[name] ??= {})[data] = (await chain.head.call(name, [data])).result;
  }
  const recording: Recording = {
    genesisHash: fixture.genesisHash,
    properties: fixture.system_properties,
    runtimeVersion: fixture.runtimeVersion,
    metadata: await chain.head.metadata,
    code: { hash: hash(code), bytes: (code.length - 2) / 2 },
    calls,
    blocks: fixture.blocks.map(({ hash: blockHash, block }) => ({
      hash: blockHash,
      header: {
        ...block.block.header,
        number: `0x${Number(block.block.header.number).toString(16)}`,
      },
      extrinsics: block.block.extrinsics,
    })),
    storage: Object.fromEntries(
      Object.entries(storage).sort(([one], [other]) => (one < other ? -1 : 1)),
    ),
  };
  await node.close();
  return recording;
}

function check(
  fixture: Fixture,
  block: FixtureBlock,
  storage: Readonly<Record<string, StorageHistory>>,
): void {
  const expected: [string, Hex | null][] = [
    [fixture.keys["System.Events"], block.events],
    [fixture.keys["Timestamp.Now"], block.timestampNow],
    ...Object.entries(fixture.keys["System.Account"]).map(([name, key]): [string, Hex | null] => [
      key,
      block.accounts[name] ?? null,
    ]),
  ];
  for (const [key, value] of expected) {
    const got = storage[key]?.at(-1)?.[1] ?? null;
    if (got !== value) throw new Error(`block ${block.number}: ${key} is ${got}, not ${value}`);
  }
}

const { values } = parseArgs({ options: { out: { type: "string" } } });
const out = values.out ?? new URL("../plugins/ledger/demo/recording.json.br", import.meta.url);
const json = Buffer.from(JSON.stringify(await record()));
const bytes = brotliCompressSync(json, {
  params: {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: json.length,
  },
});
await writeFile(out, bytes);
console.log(`${json.length} bytes of JSON, ${bytes.length} compressed`);
// chopsticks leaves a worker running that would keep the process alive.
process.exit(0);
