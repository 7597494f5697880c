/** The usual provider of @polkadot/api, WsProvider, through the gateway to a real runtime: reads and subscriptions. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { ApiPromise } from "@polkadot/api";
import { until } from "../plugins/ledger/until.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";
import { connectByWebSocket } from "./polkadot-api.ts";
import { startLedgerGateway } from "./shipped-gateway.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

const stack = new AsyncDisposableStack();
let chain: Chopsticks;
let api: ApiPromise;
if (withoutSpecs === false) {
  before(async () => {
    chain = stack.use(await startChopsticks());
    const { wsUrl } = stack.use(await startLedgerGateway(chain.url));
    api = await connectByWebSocket(wsUrl);
    stack.defer(() => api.disconnect());
  });
  after(() => stack.disposeAsync());
}
const options = { skip: withoutSpecs };

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
    await chain.newBlock();
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
  await chain.newBlock();
  await until(() => seen.length === 2);
  assert.equal(seen[1], seen[0]! + 1);
  stop();
});
