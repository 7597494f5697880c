/**
 * Measures addresses and storage keys: our own code (with @noble/hashes) beside @polkadot/util-crypto with its
 * WebAssembly. Both must give the same results. The cost of loading each is measured in a separate process.
 *
 *   node bench/micro/addresses.ts
 */
import {
  blake2AsU8a,
  cryptoWaitReady,
  decodeAddress,
  encodeAddress,
  xxhashAsU8a,
} from "@polkadot/util-crypto";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accountIdOf, addressOf } from "../../plugins/ledger/ledger/decode/ss58.ts";
import { hashKey, storagePrefix } from "../../plugins/ledger/ledger/decode/storage-key.ts";

interface Operation {
  readonly name: string;
  readonly ours: (n: number) => string | Uint8Array | undefined;
  readonly theirs: (n: number) => string | Uint8Array;
}

const rounds = 41;
const callsPerRound = 2_000;
const importRounds = 5;

const ids = Array.from({ length: 256 }, () => new Uint8Array(randomBytes(32)));
const idAt = (n: number): Uint8Array => ids[n % ids.length] ?? new Uint8Array(32);

function ofPrefix(prefix: number): Operation[] {
  const addresses = ids.map((id) => encodeAddress(id, prefix));
  const addressAt = (n: number): string => addresses[n % addresses.length] ?? "";
  return [
    {
      name: `address to id, prefix ${prefix}`,
      ours: (n) => accountIdOf(addressAt(n)),
      theirs: (n) => decodeAddress(addressAt(n)),
    },
    {
      name: `id to address, prefix ${prefix}`,
      ours: (n) => addressOf(idAt(n), prefix),
      theirs: (n) => encodeAddress(idAt(n), prefix),
    },
  ];
}

const operations: Operation[] = [
  ...[0, 42, 2_254].flatMap(ofPrefix),
  {
    name: "key of System.Account",
    ours: (n) =>
      Buffer.concat([storagePrefix("System", "Account"), hashKey("blake2_128_concat", idAt(n))]),
    theirs: (n) =>
      Buffer.concat([
        xxhashAsU8a("System", 128),
        xxhashAsU8a("Account", 128),
        blake2AsU8a(idAt(n), 128),
        idAt(n),
      ]),
  },
  {
    name: "of which the prefix (twox128, twice)",
    ours: () => storagePrefix("System", "Account"),
    theirs: () => Buffer.concat([xxhashAsU8a("System", 128), xxhashAsU8a("Account", 128)]),
  },
  {
    name: "of which the id (blake2_128_concat)",
    ours: (n) => hashKey("blake2_128_concat", idAt(n)),
    theirs: (n) => Buffer.concat([blake2AsU8a(idAt(n), 128), idAt(n)]),
  },
];

function assertSame({ name, ours, theirs }: Operation): void {
  for (let n = 0; n < ids.length; n++) {
    assert.deepEqual(Buffer.from(ours(n) ?? []), Buffer.from(theirs(n)), name);
  }
}

function timed(task: (n: number) => unknown): number {
  const start = performance.now();
  for (let n = 0; n < callsPerRound; n++) task(n);
  return ((performance.now() - start) * 1_000) / callsPerRound;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
}

function row({ name, ours, theirs }: Operation): string {
  const times: [number, number][] = [];
  for (let round = 0; round < rounds; round++) times.push([timed(ours), timed(theirs)]);
  const us = times.map(([first]) => first);
  const them = times.map(([, second]) => second);
  return `| ${name}, µs | ${cells(median(us), median(them))} |`;
}

function cells(ours: number, theirs: number): string {
  return [ours, theirs, theirs / ours].map((n) => n.toPrecision(n < 100 ? 2 : 3)).join(" | ");
}

/** Returns the CPU time in milliseconds and the memory in MiB that `modules` add to a fresh process. */
function loaded(modules: readonly string[]): Record<"cpu" | "rss", number> {
  const script = `await import(${JSON.stringify(source("clock.ts"))});
    const cpu = process.cpuUsage(), rss = process.memoryUsage.rss();
    for (const name of ${JSON.stringify(modules)}) await import(name);
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ cpu: (user + system) / 1e3, rss: (process.memoryUsage.rss() - rss) / 2 ** 20 }))`;
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
  });
  // The last line of the script writes this.
  return JSON.parse(said) as Record<"cpu" | "rss", number>;
}

function source(path: string): string {
  return new URL(`../../src/${path}`, import.meta.url).href;
}

function importRows(what: string, theirModules: readonly string[]): string[] {
  const ourModules = [source("ledger/decode/ss58.ts"), source("ledger/decode/storage-key.ts")];
  const taken = Array.from({ length: importRounds }, () => ({
    ours: loaded(ourModules),
    theirs: loaded(theirModules),
  }));
  const middle = (of: "cpu" | "rss"): string =>
    cells(median(taken.map(({ ours }) => ours[of])), median(taken.map(({ theirs }) => theirs[of])));
  return [`| ${what}, CPU ms | ${middle("cpu")} |`, `| ${what}, RSS MiB | ${middle("rss")} |`];
}

await cryptoWaitReady();
operations.forEach(assertSame);
const needed = ["address/decode", "address/encode", "blake2", "xxhash"].map(
  (name) => `@polkadot/util-crypto/${name}`,
);
const rows = [
  ...operations.map(row),
  ...importRows("import of the modules needed", needed),
  ...importRows("import of the whole package", ["@polkadot/util-crypto"]),
];
console.log("|  | ours | @polkadot/util-crypto | ratio |\n| --- | --- | --- | --- |");
console.log(rows.join("\n"));
