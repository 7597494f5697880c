/** The providers that verify, with PAPI, polkadot.js and dedot, through a gateway and through one that lies. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiPromise } from "@polkadot/api";
import { DedotClient, LegacyClient } from "dedot";
import { createClient } from "polkadot-api";
import {
  VerifiedProvider,
  verifiedProvider,
} from "../../../../plugins/proofs/client/verified-provider.ts";
import { until } from "../../ledger/until.ts";
import { registry, TestChain, voters } from "../test-chain.ts";
import { startLiar, startProvedDemo, type Message } from "./proved-demo.ts";
import { ask, stateless } from "../../../e2e/mcp-gateway.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";
/** `System.Number`. */
const key = "0x26aa394eea5630e07c48ae0c9558cef702a5c1b19ab7a04f536c519aca4983ac";

test("PAPI reads blocks and storage, all of it verified", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  const client = createClient(verifiedProvider(url, { checkpoint: chain.checkpoint(2) }));
  t.after(() => client.destroy());
  const { number, hash, parent } = await client.getFinalizedBlock();
  assert.equal(number, 8);
  assert.equal((await client.getBlockHeader(hash)).parentHash, parent);
  assert.ok((await client.getBlockBody(hash)).length >= 2);
  const api = client.getUnsafeApi();
  const account = (await api.query["System"]!["Account"]!.getValue(alice)) as { nonce: number };
  assert.ok(account.nonce > 0);
  const entries = await api.query["System"]!["Account"]!.getEntries();
  assert.ok(entries.length >= 6);
  client.destroy();
});

test("polkadot.js reads and subscribes, all of it verified", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  const provider = new VerifiedProvider(url, { checkpoint: chain.checkpoint(2) });
  const api = await ApiPromise.create({ provider, noInitWarn: true, throwOnConnect: true });
  t.after(() => api.disconnect());
  assert.equal((await api.rpc.chain.getHeader()).number.toNumber(), 8);
  const { nonce } = await api.query.system.account(alice);
  assert.ok(nonce.toNumber() > 0);
  assert.ok((await api.query.system.account.entries()).length >= 6);
  const block = await api.rpc.chain.getBlock(chain.at(8).hash);
  assert.ok(block.block.extrinsics.length >= 2);
  const head = await new Promise<number>((resolve) => {
    void api.rpc.chain.subscribeFinalizedHeads((each) => resolve(each.number.toNumber()));
  });
  assert.equal(head, 8);
  await api.disconnect();
});

test("dedot reads with both of its clients, all of it verified", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  const options = { checkpoint: chain.checkpoint(2) };
  for (const Client of [DedotClient, LegacyClient]) {
    const client = await Client.new(new VerifiedProvider(url, options));
    const { data, nonce } = await client.query.system.account(alice);
    assert.ok(nonce > 0 && data.free > 0n);
    assert.equal(await client.query.system.number(), 8);
    const entries = await client.query.system.account.entries();
    assert.ok(entries.length >= 6);
    await client.disconnect();
  }
});

const notProved = { code: -32052 };
type Lie = (message: Message, method: string) => void;

test("each lie of a gateway is refused", async (t) => {
  const finalized = 7;
  const { url, chain } = await startProvedDemo(t, finalized);
  let lie: Lie = () => {};
  const liar = await startLiar(t, url, (message, asked) => lie(message, asked?.method ?? ""));
  const provider = new VerifiedProvider(liar, { checkpoint: chain.checkpoint(2) });
  t.after(() => provider.disconnect());
  const read = (method: string, ...params: unknown[]): Promise<unknown> =>
    provider.send(method, params);
  const { hash } = chain.at(finalized - 1);
  const value = "0x06000000";
  assert.equal(await read("state_getStorage", key, hash), value);
  // The value comes from the proof, so it is right whatever the gateway calls the result.
  lie = (message) => (message["result"] = "0x07000000");
  assert.equal(await read("state_getStorage", key, hash), value);
  lie = (message, method) => {
    if (method === "chain_getBlockHash") message["result"] = chain.at(3).hash;
  };
  assert.equal(await read("chain_getBlockHash", finalized), chain.at(finalized).hash);
  const changesProof = (change: (proof: { nodes: string[]; headers: unknown[] }) => void): Lie => {
    return (message, method) => {
      if (method.startsWith("state_")) change(message["proof"] as Parameters<typeof change>[0]);
    };
  };
  const otherHeader = registry.createType("Header", chain.at(5).header).toHex();
  const lies: Record<string, Lie> = {
    "no proof": (message) => delete message["proof"],
    "a node is missing": changesProof(({ nodes }) => nodes.pop()),
    "damaged nodes": changesProof((proof) => {
      proof.nodes = proof.nodes.map((node) => `${node.slice(0, -2)}ff`);
    }),
    "no header": changesProof(({ headers }) => headers.splice(0)),
    "another header": changesProof(({ headers }) => headers.splice(0, 1, otherHeader)),
    "a header that is not text": changesProof(({ headers }) => headers.splice(0, 1, 1)),
  };
  for (const [name, each] of Object.entries(lies)) {
    lie = each;
    await assert.rejects(read("state_getStorage", key, hash), notProved, name);
    await assert.rejects(read("state_getKeysPaged", key, 10, null, hash), notProved, name);
    await assert.rejects(read("state_queryStorageAt", [key]), notProved, name);
  }
  lie = ({ result }) => {
    (result as { block?: { extrinsics: unknown[] } }).block?.extrinsics.pop();
  };
  await assert.rejects(read("chain_getBlock", hash), notProved);
  lie = (message, method) => {
    if (method === "chain_getHeader") message["result"] = chain.at(3).header;
  };
  await assert.rejects(read("chain_getHeader", hash), notProved);
});

test("what is not finalized or cannot be verified is refused, and a read without a block is at the finalized head", async (t) => {
  const { url, chain } = await startProvedDemo(t, 7);
  const provider = new VerifiedProvider(url, { checkpoint: chain.checkpoint(2) });
  t.after(() => provider.disconnect());
  assert.equal(await provider.send("state_getStorage", [key]), "0x07000000");
  const { hash, header } = chain.at(8);
  await assert.rejects(provider.send("state_getStorage", [key, hash]), notProved);
  await assert.rejects(provider.send("chain_getBlock", [hash]), notProved);
  await assert.rejects(provider.send("state_getPairs", ["0x"]), notProved);
  const { stateRoot } = await provider.send<{ stateRoot: string }>("chain_getHeader", [hash]);
  assert.equal(stateRoot, header["stateRoot"]);
});

test("a gateway that follows another chain than the checkpoint is not believed", async (t) => {
  const { url } = await startProvedDemo(t);
  const checkpoint = new TestChain(voters(4)).add({}, 3).checkpoint(2);
  const provider = new VerifiedProvider(url, { checkpoint });
  t.after(() => provider.disconnect());
  await assert.rejects(provider.send("state_getStorage", [key]), notProved);
});

test("a head is not reported as finalized unless it is", async (t) => {
  const { url, chain } = await startProvedDemo(t, 7);
  let isLying = true;
  const liar = await startLiar(t, url, ({ method, params }) => {
    if (method === "chain_finalizedHead" && isLying)
      (params as { result: unknown }).result = chain.at(8).header;
  });
  const provider = new VerifiedProvider(liar, { checkpoint: chain.checkpoint(2) });
  t.after(() => provider.disconnect());
  const numbers: number[] = [];
  const subscribe = (): Promise<unknown> =>
    provider.subscribe("", "chain_subscribeFinalizedHeads", [], (_, head) =>
      numbers.push(Number((head as { number: string }).number)),
    );
  await subscribe();
  // The answer to another call comes after the notification.
  await provider.send("state_getStorage", [key]);
  isLying = false;
  await subscribe();
  await until(() => numbers.length > 0);
  assert.deepEqual(numbers, [7]);
});

test("a follow that calls another block finalized does not pass", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  const hashes: string[][] = [];
  for (const lie of [
    [chain.at(7).hash, chain.at(8).hash],
    [chain.at(6).hash, chain.at(8).hash],
    [`0x${"11".repeat(32)}`, chain.at(8).hash],
  ]) {
    const liar = await startLiar(t, url, ({ method, params }) => {
      if (method !== "chainHead_v1_followEvent") return;
      const { result } = params as { result: Message };
      if (result["event"] === "initialized") result["finalizedBlockHashes"] = lie;
    });
    const provider = new VerifiedProvider(liar, { checkpoint: chain.checkpoint(2) });
    await provider.subscribe("", "chainHead_v1_follow", [false], (_, each) => {
      const { event, finalizedBlockHashes } = each as Record<string, string[] & string>;
      if (event === "initialized") hashes.push(finalizedBlockHashes ?? []);
    });
    // The answer to another call comes after the event.
    await provider.send("state_getStorage", [key]);
    await until(() => hashes.length > 0);
    await provider.disconnect();
  }
  assert.deepEqual(hashes, [[chain.at(7).hash, chain.at(8).hash]]);
});

test("a head passes although the proof is not there at once", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  let isLate = true;
  const liar = await startLiar(t, url, (message, asked) => {
    if (asked?.method !== "grandpa_proveFinality" || !isLate) return;
    isLate = false;
    delete message["result"];
    message["error"] = { code: 1, message: "not yet finalized" };
  });
  const provider = new VerifiedProvider(liar, { checkpoint: chain.checkpoint(2) });
  t.after(() => provider.disconnect());
  const heads: unknown[] = [];
  await provider.subscribe("", "chain_subscribeFinalizedHeads", [], (_, head) => heads.push(head));
  await until(() => heads.length > 0);
  assert.equal(isLate, false);
});

test("watches of storage share one subscription, and one that cannot be verified does not stop others", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  const asked: string[] = [];
  let isFirst = true;
  const liar = await startLiar(t, url, (message, call) => {
    if (call === undefined) return;
    const { method, params } = call as { method: string; params: string[][] };
    asked.push(method);
    if (method !== "state_queryStorageAt") return;
    // The other keys are never proved, and this one is not proved at once.
    const isProved = params[0]?.[0] === key && !isFirst;
    if (params[0]?.[0] === key) isFirst = false;
    if (!isProved) delete message["proof"];
  });
  const provider = new VerifiedProvider(liar, { checkpoint: chain.checkpoint(2) });
  t.after(() => provider.disconnect());
  const blocks: unknown[] = [];
  const watch = (keys: readonly string[]): Promise<number | string> =>
    provider.subscribe("", "state_subscribeStorage", [keys], (_, each) =>
      blocks.push((each as { block: unknown }).block),
    );
  await assert.rejects(watch(Array<string>(1_001).fill(key)), notProved);
  const ids = await Promise.all([watch(["0x00"]), watch([key])]);
  await until(() => blocks.length > 0);
  for (const id of ids)
    assert.equal(await provider.unsubscribe("", "state_unsubscribeStorage", id), true);
  const count = (method: string): number => asked.filter((each) => each === method).length;
  assert.equal(count("chain_subscribeFinalizedHeads"), 1);
  assert.equal(count("chain_unsubscribeFinalizedHeads"), 1);
  assert.deepEqual(blocks, [chain.at(8).hash]);
});

test("a connection that is closed while it opens is not reported as open", async (t) => {
  const { url, chain } = await startProvedDemo(t);
  const provider = new VerifiedProvider(url, { checkpoint: chain.checkpoint(2) });
  const events: string[] = [];
  for (const event of ["connected", "disconnected"] as const)
    provider.on(event, () => events.push(event));
  await provider.disconnect();
  await provider.connect();
  await provider.disconnect();
  assert.deepEqual(events, ["disconnected", "connected", "disconnected"]);
});

test("the results of tools name the reads that were proved", async (t) => {
  const { gateway, chain } = await startProvedDemo(t, 8, { proof: "prefer" });
  const call = async (name: string, input: object): Promise<unknown> => {
    const body = stateless("tools/call", { name, arguments: input });
    const { result } = (await ask(gateway, { key: gateway.key, ...body })).json;
    assert.equal(result.isError, undefined, JSON.stringify(result));
    return result._meta.proof;
  };
  const { hash, header, number } = chain.at(7);
  const at = `finalized; block=${hash}`;
  const ofState = `${at}; root=${String(header["stateRoot"])}`;
  const ofBlock = `${at}; root=${String(header["extrinsicsRoot"])}`;
  const storage = { method: "state_getStorage", proof: ofState };
  assert.deepEqual(await call("ledger_getStorage", { key, blockHash: hash }), [storage]);
  assert.deepEqual(await call("ledger_queryStorage", { keys: [key], blockHash: hash }), [
    { method: "state_queryStorageAt", proof: ofState },
  ]);
  assert.deepEqual(await call("ledger_getAccount", { address: alice, blockHash: hash }), [storage]);
  assert.deepEqual(await call("ledger_getEvents", { blockHash: hash }), [storage]);
  assert.deepEqual(await call("ledger_getBlock", { height: number }), [
    { method: "chain_getBlockHash", proof: at },
    { method: "chain_getBlock", proof: ofBlock },
  ]);
  assert.deepEqual(await call("ledger_rpc", { method: "system_chain" }), [
    { method: "system_chain", proof: "none; reason=this call cannot be proved" },
  ]);
});
