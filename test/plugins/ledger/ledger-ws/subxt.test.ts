/**
 * Traffic in the shape of subxt's. The order of the calls and the form of their parameters were read from subxt's source
 * of May 2026 (its backends `combined`, `chain_head` and `legacy`, and its client of a block); nothing was recorded. A
 * change of subxt must be noted here by hand.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ChainNode, hashOf, headerOf } from "../ledger/feed/chain-node.ts";
import { FollowNode, hashAt } from "../ledger/follow/follow-node.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { JsonrpseeClient } from "./jsonrpsee-client.ts";

const shipped = await readFile(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");

async function startGateway(urls: readonly string[]): Promise<TestGateway> {
  const gateway = await startTestGateway({
    pipeline: shipped.replace("aliases: {", "probeMs: 100\n    aliases: {"),
    env: { LEDGER_RPC_URL: urls.join(",") },
  });
  await untilNodesUp(gateway, urls.length);
  return gateway;
}

/** Reads a runtime call as the backend `chain_head` does. */
async function callAt(
  client: JsonrpseeClient,
  follow: string,
  [hash, name, params]: readonly [string, string, string],
): Promise<string | undefined> {
  const started = (await client.request("chainHead_v1_call", follow, hash, name, params)) as {
    result: string;
    operationId: string;
  };
  assert.equal(started.result, "started");
  const { operationId, output } = await client.event(follow, "operationCallDone");
  assert.equal(operationId, started.operationId);
  return output;
}

describe("subxt with the backend that it chooses by rpc_methods", () => {
  it("connects, reads at the finalized block, follows, unpins, and continues after a stop", async () => {
    await using first = await FollowNode.start();
    await using second = await FollowNode.start();
    for (const node of [first, second]) node.answers.set("chainSpec_v1_genesisHash", hashAt(0));
    await using gateway = await startGateway([first.url, second.url]);
    await using client = await JsonrpseeClient.connect(gateway.url, gateway.key);
    const extend = (): string => {
      const parent = first.best;
      const hash = hashAt(Number.parseInt(parent.slice(4), 16) + 1);
      for (const node of [first, second]) node.add(hash, parent);
      for (const node of [first, second]) node.finalize([hash]);
      return hash;
    };

    // The combined backend looks for the two groups by their prefix.
    const { methods } = (await client.request("rpc_methods")) as { methods: string[] };
    for (const prefix of ["archive_v1_", "chainHead_v1_"]) {
      assert.ok(
        methods.some((name) => name.startsWith(prefix)),
        prefix,
      );
    }
    // The follow runs in the background. It asks for the runtime.
    let follow = await client.subscribe("chainHead_v1_follow", true);
    // Each read is tried with the group archive_v1 first. These nodes do not have it, and chainHead_v1 is used instead.
    assert.equal((await client.call("archive_v1_genesisHash")).error?.code, -32601);
    assert.equal(await client.request("chainSpec_v1_genesisHash"), hashAt(0));
    const { finalizedBlockHashes } = await client.event(follow, "initialized");
    const hash = finalizedBlockHashes!.at(-1)!;
    assert.equal((await client.call("archive_v1_header", hash)).error?.code, -32601);
    assert.match(String(await client.request("chainHead_v1_header", follow, hash)), /^0x/);
    const calls = [
      ["Core_version", "0x"],
      ["Metadata_metadata_versions", "0x"],
      ["Metadata_metadata_at_version", "0x0f000000"],
    ] as const;
    for (const [name, params] of calls) {
      const { error } = await client.call("archive_v1_call", hash, name, params);
      assert.equal(error?.code, -32601);
      assert.equal(await callAt(client, follow, [hash, name, params]), `${params}ff`);
    }

    // Values are read in one operation, without a child trie.
    const values = ["0x01", "0x02"].map((key) => ({ key, type: "value" }));
    const archive = await client.call("archive_v1_storage", hash, values.slice(0, 1), null);
    assert.equal(archive.error?.code, -32601);
    await client.request("chainHead_v1_storage", follow, hash, values, null);
    const items = new Set<unknown>();
    for (;;) {
      const event = await client.next(follow);
      if (event.event === "operationStorageDone") break;
      if (event.event === "operationStorageItems") for (const item of event.items!) items.add(item);
    }
    assert.deepEqual(
      items,
      new Set([
        { key: "0x01", value: "0x2a" },
        { key: "0x02", value: "0x2a" },
      ]),
    );
    // A map is iterated by the hashes of its descendants.
    const map = [{ key: "0xdd", type: "descendantsHashes" }];
    await client.request("chainHead_v1_storage", follow, hash, map, null);
    for (let page = 1; page <= 3; page++) await client.event(follow, "operationStorageItems");
    await client.event(follow, "operationStorageDone");

    // A stream of finalized blocks reads each header, and drops each block when it is no longer used.
    let last = hash;
    for (let block = 0; block < 3; block++) {
      const added = extend();
      const event = await client.event(follow, "finalized");
      assert.deepEqual(event.finalizedBlockHashes, [added]);
      assert.match(String(await client.request("chainHead_v1_header", follow, added)), /^0x/);
      assert.equal(await client.request("chainHead_v1_unpin", follow, last), null);
      last = added;
    }

    // After a stop, subxt follows again at once. It fails if the first event does not contain the last finalized block.
    const current = first.follows.size > 0 ? first : second;
    current.cut();
    await client.event(follow, "stop");
    follow = await client.subscribe("chainHead_v1_follow", true);
    const begun = await client.event(follow, "initialized");
    assert.ok(begun.finalizedBlockHashes!.includes(last));
    // The stream is dropped.
    assert.equal(await client.request("chainHead_v1_unfollow", follow), null);
  });
});

describe("subxt with the legacy backend", () => {
  it("reads at the finalized block, iterates over a map, and streams finalized heads without a gap", async () => {
    await using node = await ChainNode.start();
    await using gateway = await startGateway([node.url]);
    await using client = await JsonrpseeClient.connect(gateway.url, gateway.key);
    const result = (method: string, text: string): void =>
      void node.answers.set(method, `"result":${text}`);
    result("state_call", '"0x04"');
    result("state_getStorage", '"0x2a"');

    assert.equal(await client.request("chain_getBlockHash", 0), hashOf(0));
    const hash = hashOf(node.best);
    assert.equal(await client.request("chain_getFinalizedHead"), hash);
    const header = await client.request("chain_getHeader", hash);
    assert.deepEqual(header, JSON.parse(headerOf(node.best)));
    for (const [name, params] of [
      ["Core_version", "0x"],
      ["Metadata_metadata_versions", "0x"],
      ["Metadata_metadata_at_version", "0x0f000000"],
    ]) {
      assert.equal(await client.request("state_call", name, params, hash), "0x04");
    }
    assert.equal(await client.request("state_getStorage", "0x01", hash), "0x2a");
    // Keys come in pages of 64, and the values of each page in one call. An empty page is the last one.
    result("state_getKeysPaged", '["0xdd01"]');
    assert.deepEqual(await client.request("state_getKeysPaged", "0xdd", 64, null, hash), [
      "0xdd01",
    ]);
    result("state_queryStorageAt", `[{"block":"${hash}","changes":[["0xdd01","0x07"]]}]`);
    await client.request("state_queryStorageAt", ["0xdd01"], hash);
    result("state_getKeysPaged", "[]");
    assert.deepEqual(await client.request("state_getKeysPaged", "0xdd", 64, "0xdd01", hash), []);

    // A stream of finalized heads begins with the head itself, and reads the header of the last one in addition.
    const heads = await client.subscribe("chain_subscribeFinalizedHeads");
    assert.deepEqual(await client.next(heads), JSON.parse(headerOf(node.best)));
    await client.request("chain_getHeader", await client.request("chain_getFinalizedHead"));
    const from = node.best;
    node.advance(from + 3);
    for (let block = from + 1; block <= from + 3; block++) {
      assert.deepEqual(await client.next(heads), JSON.parse(headerOf(block)));
    }
    assert.equal(await client.request("chain_unsubscribeFinalizedHeads", heads), true);
  });
});
