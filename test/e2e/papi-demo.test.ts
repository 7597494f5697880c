/** PAPI (polkadot-api) with its own WebSocket provider, through the gateway to the demo node of `npm start`. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createClient, type PolkadotClient } from "polkadot-api";
import { getWsProvider } from "polkadot-api/ws";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { startLedgerGateway } from "./shipped-gateway.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

const stack = new AsyncDisposableStack();
let client: PolkadotClient;
before(async () => {
  const node = stack.adopt(await startDemoNode(), (started) => started.close());
  const { wsUrl } = stack.use(await startLedgerGateway(node.url));
  client = createClient(getWsProvider(wsUrl));
  stack.defer(() => client.destroy());
});
after(() => stack.disposeAsync());

test("PAPI connects to the demo node, and reads blocks, storage, maps and runtime calls", async () => {
  const { name } = await client.getChainSpecData();
  assert.equal(name, "Coretime Demo");
  const { number, hash, parent } = await client.getFinalizedBlock();
  assert.equal(number, 8);
  assert.equal((await client.getBlockHeader(hash)).parentHash, parent);
  assert.ok((await client.getBlockBody(hash)).length >= 2);
  const api = client.getUnsafeApi();
  const nonce = await api.apis["AccountNonceApi"]!["account_nonce"]!(alice);
  const account = (await api.query["System"]!["Account"]!.getValue(alice)) as { nonce: number };
  assert.equal(account.nonce, nonce);
  const entries = await api.query["System"]!["Account"]!.getEntries();
  assert.ok(entries.length >= 6);
});
