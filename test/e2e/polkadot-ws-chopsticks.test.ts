/** The usual provider of @polkadot/api, WsProvider, through the gateway to a real runtime: reads and subscriptions. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { ApiPromise, WsProvider } from "@polkadot/api";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { until } from "../plugins/ledger/until.ts";
import { resultOf } from "../plugins/ledger/demo/rpc-client.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

let chain: Chopsticks;
let gateway: TestGateway;
let api: ApiPromise;
if (withoutSpecs === false) {
  before(async () => {
    chain = await startChopsticks();
    gateway = await startTestGateway({
      pipeline: await readFile(new URL("../../pipeline.yaml", import.meta.url), "utf8"),
      env: { LEDGER_RPC_URL: chain.url },
    });
    const url = `${gateway.url.replace("http:", "ws:")}/v1/ledger/ws/${gateway.key}`;
    api = await ApiPromise.create({
      provider: new WsProvider(url),
      noInitWarn: true,
      throwOnConnect: true,
    });
  });
  after(async () => {
    await api?.disconnect();
    await gateway?.[Symbol.asyncDispose]();
    await chain?.[Symbol.asyncDispose]();
  });
}
const options = { skip: withoutSpecs };

const newBlock = async (): Promise<unknown> => resultOf(chain.url, "dev_newBlock", {});

test("the client connects with the key in the path, and reads", options, async () => {
  assert.equal(api.runtimeVersion.specName.toString(), "coretime-polkadot");
  const { number } = await api.rpc.chain.getHeader();
  const hash = await api.rpc.chain.getBlockHash(number.toNumber());
  const { block } = await api.rpc.chain.getBlock(hash);
  assert.equal(block.header.hash.toHex(), hash.toHex());
  const account = (await api.query.system.account(alice)).toJSON();
  assert.equal(BigInt((account as { data: { free: string } }).data.free), 100_000_000_000_000_000n);
});

test("new and finalized heads arrive, each once and in order", options, async () => {
  const start = (await api.rpc.chain.getHeader()).number.toNumber();
  const heads: number[] = [];
  const finalized: number[] = [];
  const stops = [
    await api.rpc.chain.subscribeNewHeads((head) => void heads.push(head.number.toNumber())),
    await api.rpc.chain.subscribeFinalizedHeads(
      (head) => void finalized.push(head.number.toNumber()),
    ),
  ];
  await until(() => heads.length === 1 && finalized.length === 1);
  for (let blocks = 1; blocks <= 3; blocks++) {
    await newBlock();
    await until(() => heads.length > blocks && finalized.length > blocks);
  }
  const expected = [start, start + 1, start + 2, start + 3];
  assert.deepEqual([heads, finalized], [expected, expected]);
  for (const stop of stops) stop();
});

test("a subscription to storage gets the value and each change", options, async () => {
  const seen: number[] = [];
  const stop = await api.query.system.number((number: { toString(): string }) => {
    seen.push(Number(number.toString()));
  });
  await until(() => seen.length === 1);
  await newBlock();
  await until(() => seen.length === 2);
  assert.equal(seen[1], seen[0]! + 1);
  stop();
});
