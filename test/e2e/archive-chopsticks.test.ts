/** `archive_v1_storage` through the gateway to a real runtime, compared with the older methods. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../plugins/contracts/testing.ts";
import { resultOf } from "../plugins/ledger/demo/rpc-client.ts";
import { request } from "../plugins/ledger/ledger/fixture.ts";
import { connectWs } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";
import { startLedgerGateway } from "./shipped-gateway.ts";

/** Prefix of the map System.Account: the hashes of both names. */
const accounts = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";

const stack = new AsyncDisposableStack();
let chain: Chopsticks;
let gateway: TestGateway;
if (withoutSpecs === false) {
  before(async () => {
    chain = stack.use(await startChopsticks());
    gateway = stack.use(await startLedgerGateway(chain.url));
  });
  after(() => stack.disposeAsync());
}

interface Message {
  readonly method: string;
  readonly params: {
    readonly subscription: string;
    readonly result: { readonly event: string; readonly key: string; readonly value: string };
  };
}

test("the accounts of a block are read in one subscription", { skip: withoutSpecs }, async () => {
  const hash = await resultOf(chain.url, "chain_getFinalizedHead");
  const keys = (await resultOf(
    chain.url,
    "state_getKeysPaged",
    accounts,
    100,
    null,
    hash,
  )) as string[];
  assert.ok(keys.length >= 6);
  const expected = await Promise.all(
    keys.map(
      async (key) => [key, await resultOf(chain.url, "state_getStorage", key, hash)] as const,
    ),
  );
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key: gateway.key });
  const items = [{ key: accounts, type: "descendantsValues" }];
  const call = request("archive_v1_storage", JSON.stringify([hash, items, null]));
  const { result: id } = JSON.parse(await client.ask(call)) as { result: string };
  const read = new Map<string, unknown>();
  for (;;) {
    const { method, params } = JSON.parse(await client.next()) as Message;
    assert.equal(method, "archive_v1_storageEvent");
    assert.equal(params.subscription, id);
    const { event, key, value } = params.result;
    if (event === "storageDone") break;
    assert.equal(event, "storage");
    read.set(key, value);
  }
  assert.deepEqual(read, new Map(expected));
});
