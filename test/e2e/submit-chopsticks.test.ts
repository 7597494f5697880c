/** Extrinsics that PAPI and @polkadot/api submit over WebSocket, through the gateway to a real runtime. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Keyring, type ApiPromise } from "@polkadot/api";
import { createClient, type PolkadotClient } from "polkadot-api";
import { getPolkadotSigner } from "polkadot-api/signer";
import { getWsProvider } from "polkadot-api/ws";
import { until } from "../plugins/ledger/until.ts";
import { resultOf } from "../plugins/ledger/demo/rpc-client.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";
import { connectByWebSocket } from "./polkadot-api.ts";
import { shipped, startLedgerGateway } from "./shipped-gateway.ts";

const stack = new AsyncDisposableStack();
let chain: Chopsticks;
let papi: PolkadotClient;
let api: ApiPromise;
if (withoutSpecs === false) {
  before(async () => {
    chain = stack.use(await startChopsticks());
    const gateway = await startLedgerGateway(chain.url, {
      pipeline: shipped.replaceAll(
        "ledger-ws: { upstream: ledger }",
        "ledger-ws: { upstream: ledger, write: true }",
      ),
      account: { capabilities: ["ledger:read", "ledger:write"] },
    });
    stack.use(gateway);
    papi = createClient(getWsProvider(gateway.wsUrl));
    stack.defer(() => papi.destroy());
    api = await connectByWebSocket(gateway.wsUrl);
    stack.defer(() => api.disconnect());
  });
  after(() => stack.disposeAsync());
}
const options = { skip: withoutSpecs };

const pending = async (): Promise<number> =>
  ((await resultOf(chain.url, "author_pendingExtrinsics")) as readonly unknown[]).length;

test("@polkadot/api: each state arrives until the finalization", options, async () => {
  const alice = new Keyring({ type: "sr25519" }).addFromUri("//Alice");
  const signed = await api.tx.system.remarkWithEvent("0x12").signAsync(alice);
  const states: string[] = [];
  await api.rpc.author.submitAndWatchExtrinsic(signed, ({ type }) => {
    states.push(type);
  });
  await until(() => states.includes("Broadcast"));
  assert.equal(await pending(), 1);
  await chain.newBlock();
  await until(() => states.includes("Finalized"));
  assert.deepEqual(states, ["Ready", "Broadcast", "InBlock", "Finalized"]);
});

test("@polkadot/api: signAndSend ends with the finalization", options, async () => {
  const alice = new Keyring({ type: "sr25519" }).addFromUri("//Alice");
  const states: string[] = [];
  await api.tx.system.remarkWithEvent("0x14").signAndSend(alice, ({ status }) => {
    states.push(status.type);
  });
  await until(() => states.includes("Broadcast"));
  assert.equal(await pending(), 1);
  await chain.newBlock();
  await until(() => states.includes("Finalized"));
  // This function reads the block of each state, and leaves out the state `InBlock` if the next state arrives meanwhile.
  const seen = states.filter((state) => state !== "InBlock");
  assert.deepEqual(seen, ["Ready", "Broadcast", "Finalized"]);
});

test("@polkadot/api: send without a watch returns the hash", options, async () => {
  const alice = new Keyring({ type: "sr25519" }).addFromUri("//Alice");
  const remark = await api.tx.system.remark("0x13").signAsync(alice);
  const hash = await api.rpc.author.submitExtrinsic(remark);
  assert.equal(hash.toHex(), remark.hash.toHex());
  await chain.newBlock();
  assert.equal(await pending(), 0);
  await assert.rejects(api.rpc.author.submitExtrinsic(remark), /stale/);
});

test("PAPI: signSubmitAndWatch and signAndSubmit reach the finalization", options, async () => {
  const pair = new Keyring({ type: "sr25519" }).addFromUri("//Bob");
  const signer = getPolkadotSigner(pair.publicKey, "Sr25519", (input) => pair.sign(input));
  const { tx } = papi.getUnsafeApi();
  const remark = (): ReturnType<(typeof tx)[string][string]> =>
    tx["System"]!["remark_with_event"]!({ remark: new Uint8Array([1, 2]) });
  const events: string[] = [];
  const failures: unknown[] = [];
  remark()
    .signSubmitAndWatch(signer)
    .subscribe({
      next: ({ type }) => void events.push(type),
      error: (error: unknown) => void failures.push(error),
    });
  await until(() => events.includes("broadcasted") || failures.length > 0);
  assert.deepEqual(failures, []);
  await until(async () => (await pending()) === 1);
  await chain.newBlock();
  await until(() => events.includes("finalized") || failures.length > 0);
  assert.deepEqual(failures, []);
  assert.deepEqual(
    [...new Set(events)],
    ["signed", "broadcasted", "txBestBlocksState", "finalized"],
  );

  const submitted = remark().signAndSubmit(signer);
  await until(async () => (await pending()) === 1);
  await chain.newBlock();
  assert.equal((await submitted).ok, true);
});
