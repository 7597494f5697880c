/**
 * Damaged bytes: no crash, no hang, and no answer that claims success and says something else than the judge does.
 * Mutants are drawn from a fixed seed.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accountJson } from "../../../src/ledger/decode/account.ts";
import { eventsJson } from "../../../src/ledger/decode/events.ts";
import { extrinsicsJson } from "../../../src/ledger/decode/extrinsics.ts";
import { createRuntime, type Runtime } from "../../../src/ledger/decode/runtime.ts";
import { compact, readCompact } from "../../../src/ledger/decode/scale.ts";
import { summarise } from "../../../src/ledger/decode/summary.ts";
import { demoChain, fixtureChain, skipWithoutFixtures, type Chain } from "./chains.ts";
import { compactBytes } from "./make-metadata.ts";
import { judgeOf, type DecodedEvent, type DecodedExtrinsic } from "./judge.ts";

/** Marsaglia's xorshift32. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** One to three changes: a byte, a bit, a stretch removed or doubled, a length blown up. */
function mutant(original: Buffer, roll: (below: number) => number): Buffer {
  let bytes = Buffer.from(original);
  for (let changes = 1 + roll(3); changes > 0; changes--) {
    // Most of what decides something stands in front.
    const at = roll(roll(2) === 0 ? Math.min(bytes.length, 160) : bytes.length) || 0;
    const until = at + roll(8);
    switch (roll(6)) {
      case 0:
        bytes[at] = roll(256);
        break;
      case 1:
        bytes[at] = (bytes[at] ?? 0) ^ (1 << roll(8));
        break;
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(until)]);
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, until), bytes.subarray(at)]);
        break;
      case 4:
        bytes = bytes.subarray(0, at);
        break;
      default:
        bytes = Buffer.concat([
          bytes.subarray(0, at),
          Buffer.from([3, 255, 255, 255, 255]),
          bytes.subarray(at),
        ]);
    }
    if (bytes.length === 0) return bytes;
  }
  return bytes;
}

/** Without the length in front, and with one that fits: so that damage reaches what is behind it. */
function withoutLength(bytes: Buffer): Buffer {
  assert(readCompact(bytes, 0, bytes.length));
  return bytes.subarray(compact.next);
}
const withLength = (bytes: Buffer): Buffer => Buffer.concat([compactBytes(bytes.length), bytes]);

const bytesOf = (hex: string): Buffer => Buffer.from(hex.slice(2), "hex");
const hexOf = (bytes: Buffer): string => `0x${bytes.toString("hex")}`;

function runtimeOf(metadata: Buffer): Runtime {
  const runtime = createRuntime(metadata);
  assert(runtime !== undefined);
  return runtime;
}

/** What the judge says; undefined where it throws. */
function tried<T>(judge: () => T): T | undefined {
  try {
    return judge();
  } catch {
    return undefined;
  }
}

function mutateExtrinsics(chain: Chain, count: number): void {
  const runtime = runtimeOf(bytesOf(chain.metadata));
  const judge = judgeOf(chain.metadata);
  const roll = dice(20261121);
  const originals = chain.blocks
    .flatMap(({ result }) => result.block.extrinsics)
    .map((raw) => withoutLength(bytesOf(raw)));
  let read = 0;
  for (let i = 0; i < count; i++) {
    const original = originals[roll(originals.length)] ?? Buffer.alloc(0);
    const damaged = mutant(original, roll);
    const raw = hexOf(roll(8) === 0 ? damaged : withLength(damaged));
    const text = extrinsicsJson(runtime, JSON.stringify([raw]));
    assert(text !== undefined);
    const [item] = JSON.parse(text) as DecodedExtrinsic[];
    assert.equal(item?.raw, raw);
    summarise(runtime, bytesOf(raw));
    if (item.method === "unknown") continue;
    read++;
    assert(raw.endsWith(item.args.slice(2)));
    assert.deepEqual(
      item,
      tried(() => judge.extrinsic(raw, 0)),
      raw,
    );
  }
  assert(read > count / 10, "some damage is no damage to the form");
  assert(read < count);
}

function mutateEvents(chain: Chain, count: number): void {
  const runtime = runtimeOf(bytesOf(chain.metadata));
  const judge = judgeOf(chain.metadata);
  const roll = dice(42);
  const originals = chain.blocks.flatMap(({ events }) =>
    events === null ? [] : [bytesOf(events)],
  );
  let read = 0;
  for (let i = 0; i < count; i++) {
    const hex = hexOf(mutant(originals[roll(originals.length)] ?? Buffer.alloc(0), roll));
    const text = eventsJson(runtime, hex);
    if (text === undefined) continue;
    read++;
    const events = JSON.parse(text) as DecodedEvent[];
    assert.deepEqual(
      events,
      tried(() => judge.events(hex)),
      hex,
    );
  }
  assert(read > 0 && read < count / 2);
}

test("3 000 damaged extrinsics of the demo's chain", () => mutateExtrinsics(demoChain(), 3000));
test("2 000 damaged lists of events of the demo's chain", () => mutateEvents(demoChain(), 2000));
test("3 000 damaged extrinsics of Westend", { skip: skipWithoutFixtures }, () =>
  mutateExtrinsics(fixtureChain("westend-dev", 15), 3000),
);
test("2 000 damaged lists of events of Westend", { skip: skipWithoutFixtures }, () =>
  mutateEvents(fixtureChain("westend-dev", 15), 2000),
);

test("1 000 times damaged metadata is refused, or decodes without harm", () => {
  const chain = demoChain();
  const metadata = bytesOf(chain.metadata);
  const roll = dice(7);
  const { result, events } = chain.blocks.at(-1) ?? {};
  const list = JSON.stringify(result?.block.extrinsics);
  for (let i = 0; i < 1000; i++) {
    const damaged = Buffer.from(metadata);
    for (let changes = 1 + roll(4); changes > 0; changes--) {
      // The types come first; a good half of the damage goes there.
      damaged[roll(roll(2) === 0 ? 40_000 : damaged.length)] = roll(256);
    }
    const runtime = createRuntime(damaged);
    if (runtime === undefined) continue;
    const text = extrinsicsJson(runtime, list);
    assert(text !== undefined);
    assert.equal((JSON.parse(text) as unknown[]).length, result?.block.extrinsics.length);
    const told = eventsJson(runtime, events ?? undefined);
    if (told !== undefined) JSON.parse(told);
    for (const raw of result?.block.extrinsics ?? []) {
      JSON.stringify(summarise(runtime, bytesOf(raw)));
    }
  }
});

test("2 000 damaged accounts are accounts of the same length, or refused", () => {
  const runtime = runtimeOf(bytesOf(demoChain().metadata));
  const roll = dice(99);
  const original = Buffer.alloc(80, 3);
  for (let i = 0; i < 2000; i++) {
    const bytes = mutant(original, roll);
    assert.equal(accountJson(runtime, hexOf(bytes)) !== undefined, bytes.length === 80);
  }
});
