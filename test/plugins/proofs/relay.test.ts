/** A parachain, whose finalized head is proved by the state of its relay chain. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { xxhashAsHex } from "@polkadot/util-crypto";
import { startTestGateway } from "../../../plugins/contracts/testing.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { check } from "../../../src/commands/check.ts";
import { commandLine } from "../../commands/command-line.ts";
import { until } from "../ledger/until.ts";
import { serveNode } from "./node-server.ts";
import { call, pipelineOf, type Answer } from "./proved-gateway.ts";
import { registry, TestChain, voters, type TestBlock } from "./test-chain.ts";
import { TestState } from "./test-state.ts";

const parachain = 2000;
const id = registry.createType("u32", parachain).toHex(true);
const headKey = [
  xxhashAsHex("Paras", 128),
  ...[xxhashAsHex("Heads", 128), xxhashAsHex(id, 64), id].map((text) => text.slice(2)),
].join("");
const key = "0x00aa";
const value = "0x0102";
const paraState = new TestState(new Map([[key, value]]));

class RelayChain {
  readonly chain = new TestChain(voters(4));
  readonly #states = new Map<unknown, TestState>();

  /** Adds a finalized block. `head`: that of the parachain. */
  add(head: TestBlock | undefined): void {
    const header = head && registry.createType("Header", head.header);
    const entries = new Map([["0xff", "0x01"]]);
    if (header !== undefined) {
      const bytes = registry.createType("Bytes", header.toHex()).toU8a();
      entries.set(headKey, `0x${Buffer.from(bytes).toString("hex")}`);
    }
    const state = new TestState(entries);
    this.chain.add({ stateRoot: state.root }).finalize();
    this.#states.set(this.chain.head.hash, state);
  }

  async answer(method: string, params: readonly unknown[]): Promise<unknown> {
    const state = this.#states.get(params.at(-1));
    return (await state?.answer(method, params)) ?? this.chain.answer(method, params);
  }
}

async function start(t: TestContext, relay: RelayChain, lie: (method: string) => unknown) {
  const clock = manualClock();
  const para = new TestChain(voters(1)).add({ stateRoot: paraState.root }, 8).finalize(3);
  relay.add(para.at(3));
  const paraAnswer = async (method: string, params: readonly unknown[]): Promise<unknown> =>
    (await paraState.answer(method, params)) ?? para.answer(method, params);
  const honest = async (method: string, params: readonly unknown[]): Promise<unknown> =>
    await relay.answer(method, params);
  const lying = async (method: string, params: readonly unknown[]): Promise<unknown> =>
    lie(method) ?? (await honest(method, params));
  const urls: string[] = [];
  for (const answer of [paraAnswer, lying, honest]) {
    const server = await serveNode({ call: answer });
    t.after(() => server[Symbol.asyncDispose]());
    urls.push(server.url);
  }
  const relayed = { upstream: "relay", parachain };
  const main = { urls: urls.slice(0, 1), relay: relayed, proof: "prefer" };
  const other = { urls: urls.slice(1), checkpoint: relay.chain.checkpoint(0) };
  const pipeline = pipelineOf(main).replace(
    "upstreams:\n",
    `upstreams:\n  relay: ${JSON.stringify(other)}\n`,
  );
  const gateway = await startTestGateway({ pipeline, clock });
  t.after(() => gateway[Symbol.asyncDispose]());
  const read = async (number: number): Promise<Answer> =>
    await call({ gateway, chain: para, urls }, "state_getStorage", [key, para.at(number).hash]);
  return { gateway, para, clock, read };
}

async function hasMetric(adminUrl: string, line: RegExp): Promise<boolean> {
  return line.test(await (await fetch(`${adminUrl}/metrics`)).text());
}

const proofOf = (state: string, { hash }: TestBlock): string =>
  `${state}; block=${hash}; root=0x${Buffer.from(paraState.root).toString("hex")}`;

test("the head of a parachain and the blocks below it are proved", async (t) => {
  const relay = new RelayChain();
  // The gateway asks the other node of the relay chain.
  const { para, clock, read } = await start(t, relay, (method) =>
    method === "state_getReadProof" ? { proof: ["0x00"] } : undefined,
  );
  const first = await read(3);
  assert.equal(first.result, value);
  assert.equal(first.proof, proofOf("finalized", para.at(3)));
  assert.equal((await read(2)).proof, proofOf("included", para.at(2)));
  assert.equal((await read(4)).proof, proofOf("included", para.at(4)));
  relay.add(para.at(6));
  para.finalize(6);
  clock.advance(6_000);
  await until(async () => (await read(6)).proof === proofOf("finalized", para.at(6)));
  assert.equal((await read(5)).proof, proofOf("finalized", para.at(5)));
  assert.equal((await read(7)).proof, proofOf("included", para.at(7)));
});

test("nothing is finalized if the relay chain has no such parachain, or no header for it", async (t) => {
  const relay = new RelayChain();
  const { gateway, para, clock, read } = await start(t, relay, () => undefined);
  assert.equal((await read(3)).proof, proofOf("finalized", para.at(3)));
  relay.add(undefined);
  para.finalize(4);
  clock.advance(6_000);
  const isChecked = (): Promise<boolean> =>
    hasMetric(gateway.adminUrl, /^sluice_head_proved_block\{upstream="relay"\} 2$/m);
  await until(isChecked);
  assert.equal((await read(4)).proof, proofOf("included", para.at(4)));
});

test("a relay chain without a checkpoint, and one beside a checkpoint, are faults", async (t) => {
  const line = commandLine(t);
  const relay = { upstream: "relay", parachain };
  const checkpoint = new TestChain(voters(1)).checkpoint(0);
  for (const [main, other, message] of [
    [{ relay }, {}, /"relay" has no checkpoint/],
    [{ relay: { ...relay, upstream: "x" } }, { checkpoint }, /"x" has no checkpoint/],
    [{ relay, checkpoint }, { checkpoint }, /not both/],
  ] as const) {
    const urls = ["http://127.0.0.1:9"];
    const text = pipelineOf({ urls, ...main }).replace(
      "upstreams:\n",
      `upstreams:\n  relay: ${JSON.stringify({ urls, ...other })}\n`,
    );
    writeFileSync(
      line.configFile,
      text.replaceAll(/\$\{(\w*PORT)\}/g, "8080").replace("${DATA_DIR}", "data"),
    );
    const { code, out, err } = await line.run(check);
    assert.equal(code, 1);
    assert.match([...out, ...err].join("\n"), message);
  }
});
