/**
 * Damaged SCALE from a node: the decoder does not crash or hang, and an answer that claims success equals what the
 * reference, @polkadot/types, reads.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { accountJson } from "../../../plugins/ledger/ledger/decode/account.ts";
import { eventsJson, extrinsicsJson } from "../../../plugins/ledger/ledger/decode/block-parts.ts";
import { createRuntime, type Runtime } from "../../../plugins/ledger/ledger/decode/runtime.ts";
import { compactResult, readCompact } from "../../../plugins/ledger/ledger/decode/scale.ts";
import { summarise } from "../../../plugins/ledger/ledger/decode/decoder.ts";
import {
  demoChain,
  fixtureChain,
  skipWithoutFixtures,
  type Chain,
} from "../../plugins/ledger/ledger/decode/chains.ts";
import {
  referenceDecoder,
  type DecodedEvent,
  type DecodedExtrinsic,
} from "../../plugins/ledger/ledger/decode/polkadot-reference.ts";
import { compactBytes } from "../../plugins/ledger/ledger/decode/make-metadata.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget, Random } from "../target.ts";

const bytesOf = (hex: string): Buffer => Buffer.from(hex.slice(2), "hex");
const hexOf = (bytes: Uint8Array): string => `0x${Buffer.from(bytes).toString("hex")}`;

/** Maximum time for which one damaged block may occupy a thread. Undamaged blocks take under a millisecond. */
const maxMs = 1_000;
/** The text that a decoder produces may be longer than the hex that it reads, but only within a limit. */
const maxGrowth = 40;

export const blocks: FuzzTarget = {
  name: "blocks",
  async run(random) {
    const chains = [demoChain()];
    if (skipWithoutFixtures === false) chains.push(fixtureChain("westend-dev", 15));
    for (const chain of chains) {
      await damagesExtrinsics(random, chain);
      await damagesEvents(random, chain);
    }
    await damagesMetadata(random, demoChain());
    await damagesAccounts(random);
  },
};

function bounded<T extends string | undefined>(inputBytes: number, decode: () => T): T {
  const begun = performance.now();
  const text = decode();
  assert(performance.now() - begun < maxMs, "decoding took too long");
  assert((text?.length ?? 0) < 2_000 + inputBytes * maxGrowth, "the result is out of proportion");
  return text;
}

async function damagesExtrinsics(random: Random, chain: Chain): Promise<void> {
  const runtime = runtimeOf(bytesOf(chain.metadata));
  const judge = referenceDecoder(chain.metadata);
  const originals = chain.blocks
    .flatMap(({ result }) => result.block.extrinsics)
    .map((raw) => withoutLength(bytesOf(raw)));
  // The length mostly fits again, so that the damage reaches the inner parts.
  const damaged = fc
    .tuple(mutantsOf(fc.constantFrom(...originals)), fc.integer({ min: 0, max: 7 }))
    .map(([bytes, dice]) => (dice === 0 ? bytes : withLength(bytes)));
  let read = 0;
  let all = 0;
  const title = `damaged extrinsics of ${chain.name} are unknown, or read as the judge reads them`;
  await random.check(title, damaged, 1_500, (bytes) => {
    all++;
    const raw = hexOf(bytes);
    const text = bounded(bytes.length, () => extrinsicsJson(runtime, JSON.stringify([raw])));
    assert(text !== undefined);
    const [item] = JSON.parse(text) as DecodedExtrinsic[];
    assert.equal(item?.raw, raw);
    summarise(runtime, bytes);
    if (item.method === "unknown") return;
    read++;
    assert(raw.endsWith(item.args.slice(2)));
    assert.deepEqual(
      item,
      tried(() => judge.extrinsic(raw, 0)),
    );
  });
  assert(read > all / 20 && read < all, `${read} of ${all} were read`);
}

async function damagesEvents(random: Random, chain: Chain): Promise<void> {
  const runtime = runtimeOf(bytesOf(chain.metadata));
  const judge = referenceDecoder(chain.metadata);
  const originals = chain.blocks.flatMap(({ events }) =>
    events === null ? [] : [bytesOf(events)],
  );
  const title = `damaged lists of events of ${chain.name} are refused, or read as the judge reads them`;
  await random.check(title, mutantsOf(fc.constantFrom(...originals)), 1_000, (bytes) => {
    const hex = hexOf(bytes);
    const text = bounded(bytes.length, () => eventsJson(runtime, hex));
    if (text === undefined) return;
    const events = JSON.parse(text) as DecodedEvent[];
    assert.deepEqual(
      events,
      tried(() => judge.events(hex)),
    );
  });
}

async function damagesMetadata(random: Random, chain: Chain): Promise<void> {
  const metadata = bytesOf(chain.metadata);
  const { result, events } = chain.blocks.at(-1) ?? {};
  const extrinsics = result?.block.extrinsics ?? [];
  const list = JSON.stringify(extrinsics);
  // The types come first, so more than half of the damage is in them.
  const place = fc.oneof(fc.nat(40_000), fc.nat(metadata.length - 1));
  const changes = fc.array(fc.tuple(place, fc.nat(255)), { minLength: 1, maxLength: 4 });
  const title = "damaged metadata is refused, or decodes without harm";
  await random.check(title, changes, 300, (patches) => {
    const damaged = Buffer.from(metadata);
    for (const [at, byte] of patches) damaged[at] = byte;
    const runtime = createRuntime(damaged);
    if (runtime === undefined) return;
    const text = bounded(list.length, () => extrinsicsJson(runtime, list));
    assert(text !== undefined);
    assert.equal((JSON.parse(text) as unknown[]).length, extrinsics.length);
    const decoded = bounded(events?.length ?? 0, () => eventsJson(runtime, events ?? undefined));
    if (decoded !== undefined) JSON.parse(decoded);
    for (const raw of extrinsics) JSON.stringify(summarise(runtime, bytesOf(raw)));
  });
}

async function damagesAccounts(random: Random): Promise<void> {
  const runtime = runtimeOf(bytesOf(demoChain().metadata));
  const damaged = mutantsOf(fc.constant(Buffer.alloc(80, 3)));
  const title = "damaged accounts are accounts of the same length, or refused";
  await random.check(title, damaged, 1_000, (bytes) => {
    assert.equal(accountJson(runtime, hexOf(bytes)) !== undefined, bytes.length === 80);
  });
}

function withoutLength(bytes: Buffer): Buffer {
  assert(readCompact(bytes, 0, bytes.length));
  return bytes.subarray(compactResult.next);
}

function withLength(bytes: Buffer): Buffer {
  return Buffer.concat([compactBytes(bytes.length), bytes]);
}

function runtimeOf(metadata: Buffer): Runtime {
  const runtime = createRuntime(metadata);
  assert(runtime !== undefined);
  return runtime;
}

function tried<T>(judge: () => T): T | undefined {
  try {
    return judge();
  } catch {
    return undefined;
  }
}
