/** @polkadot/api with both providers, PAPI and the ledger tools, through the gateway to a runtime and the demo node. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ApiPromise, HttpProvider, Keyring, WsProvider } from "@polkadot/api";
import { createClient, type PolkadotClient } from "polkadot-api";
import { getPolkadotSigner } from "polkadot-api/signer";
import { getWsProvider } from "polkadot-api/ws";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { call, post, resultOf } from "../plugins/ledger/demo/rpc-client.ts";
import { request } from "../plugins/ledger/ledger/fixture.ts";
import { connectWs } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { until } from "../plugins/ledger/until.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";
import { startToolsGateway, type Called, type ToolsGateway } from "./ledger-tools-node.ts";
import { shipped, startLedgerGateway, type LedgerGateway } from "./shipped-gateway.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";
const charlie = "14Gjs1TD93gnwEBfDMHoCgsuf1s2TVKUP6Z1qKmAZnZ8cW5q";
const ferdie = "5CiPPseXPECbkjWCa6MnjNokrgYjMqmKndv2rSnekmSK2DjL";
/** Prefix of the map System.Account: the hashes of both names. */
const accounts = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";
const funded = "100000000000000000";
const pairOf = (name: string) => new Keyring({ type: "sr25519" }).addFromUri(name);

interface Clients {
  readonly gateway: LedgerGateway;
  readonly http: ApiPromise;
  readonly ws: ApiPromise;
  readonly papi: PolkadotClient;
  send(body: unknown): Promise<unknown>;
}

/** Starts the shipped pipeline, with submissions over WebSocket, in front of a node. */
async function connectAll(nodeUrl: string, stack: AsyncDisposableStack): Promise<Clients> {
  const writing = "ledger-ws: { upstream: ledger, write: true }";
  const gateway = stack.use(
    await startLedgerGateway(nodeUrl, {
      pipeline: shipped.replaceAll("ledger-ws: { upstream: ledger }", writing),
      account: { capabilities: ["ledger:read", "ledger:write"] },
    }),
  );
  const url = `${gateway.url}/v1/ledger/rpc`;
  const headers = { Authorization: `Bearer ${gateway.key}` };
  const connect = async (provider: HttpProvider | WsProvider): Promise<ApiPromise> => {
    const api = await ApiPromise.create({ provider, noInitWarn: true, throwOnConnect: true });
    stack.defer(() => api.disconnect());
    return api;
  };
  const papi = createClient(getWsProvider(gateway.wsUrl));
  stack.defer(() => papi.destroy());
  return {
    gateway,
    http: await connect(new HttpProvider(url, headers)),
    ws: await connect(new WsProvider(gateway.wsUrl)),
    papi,
    async send(body) {
      const all = { ...headers, "content-type": "application/json" };
      return JSON.parse((await post(url, JSON.stringify(body), all)).text);
    },
  };
}

function balance(account: { toJSON(): unknown }): string {
  const { data } = account.toJSON() as { data: { free: string | number } };
  return BigInt(data.free).toString();
}

const notAllowed = (id: number): unknown => ({
  jsonrpc: "2.0",
  id,
  error: { code: -32601, message: "Method Not Allowed" },
});

describe("clients and the demo node", () => {
  const stack = new AsyncDisposableStack();
  let clients: Clients;
  before(async () => {
    const node = stack.adopt(await startDemoNode(), (started) => started.close());
    clients = await connectAll(node.url, stack);
  });
  after(() => stack.disposeAsync());

  it("@polkadot/api reads accounts, calls and events, over HTTP and over WebSocket", async () => {
    for (const api of [clients.http, clients.ws]) {
      assert.equal(api.runtimeChain.toString(), "Coretime Demo");
      assert.equal(api.runtimeVersion.specVersion.toNumber(), 1_003_000);
      assert.equal((await api.query.system.account.entries()).length, 16);
      assert.equal((await api.call.accountNonceApi.accountNonce(alice)).toString(), "10");
      const hash = await api.rpc.chain.getBlockHash(4);
      const events = await (await api.at(hash)).query.system.events();
      assert.equal(Reflect.get(events, "length"), 27);
    }
    const heads: number[] = [];
    const stop = await clients.ws.rpc.chain.subscribeNewHeads(
      (head) => void heads.push(head.number.toNumber()),
    );
    await until(() => heads.length > 0);
    assert.deepEqual(heads, [8]);
    stop();
  });

  it("every header has the right hash, and every extrinsic can be decoded", async () => {
    const { chain } = clients.http.rpc;
    for (let number = 1; number <= 8; number++) {
      const hash = await chain.getBlockHash(number);
      const { block } = await chain.getBlock(hash);
      assert.equal(block.header.hash.toHex(), hash.toHex());
      assert.equal(block.extrinsics[0]!.method.section, "timestamp");
    }
  });

  it("PAPI reads blocks, storage, maps and runtime calls", async () => {
    const { papi } = clients;
    assert.equal((await papi.getChainSpecData()).name, "Coretime Demo");
    const { number, hash, parent } = await papi.getFinalizedBlock();
    assert.equal(number, 8);
    assert.equal((await papi.getBlockHeader(hash)).parentHash, parent);
    assert.ok((await papi.getBlockBody(hash)).length >= 2);
    const api = papi.getUnsafeApi();
    const nonce = await api.apis["AccountNonceApi"]!["account_nonce"]!(alice);
    const account = (await api.query["System"]!["Account"]!.getValue(alice)) as { nonce: number };
    assert.equal(account.nonce, nonce);
    assert.ok((await api.query["System"]!["Account"]!.getEntries()).length >= 6);
  });
});

describe("clients and a real runtime", { skip: withoutSpecs }, () => {
  const stack = new AsyncDisposableStack();
  let chain: Chopsticks;
  let clients: Clients;
  let tools: ToolsGateway;
  before(async () => {
    chain = stack.use(await startChopsticks());
    clients = await connectAll(chain.url, stack);
    tools = stack.use(await startToolsGateway(chain.url));
  });
  after(() => stack.disposeAsync());

  const pending = async (): Promise<readonly unknown[]> =>
    (await resultOf(chain.url, "author_pendingExtrinsics")) as readonly unknown[];

  it("@polkadot/api finds chain, runtime and constants, and reads a map over several pages", async () => {
    const { http: api } = clients;
    assert.equal(api.runtimeVersion.specName.toString(), "coretime-polkadot");
    assert.equal(api.registry.chainSS58, 0);
    assert.equal(api.consts.balances.existentialDeposit.toString(), "1000000000");
    const { account } = api.query.system;
    const two = await account.multi([alice, `0x${"11".repeat(32)}`]);
    assert.deepEqual(two.map(balance), [funded, "0"]);
    const found = new Map<string, string>();
    let startKey: string | undefined;
    for (;;) {
      const page = await account.entriesPaged({
        args: [],
        pageSize: 4,
        ...(startKey !== undefined && { startKey }),
      });
      for (const [key, value] of page) found.set(key.args[0].toHex(), balance(value));
      startKey = page.at(-1)?.[0].toHex();
      if (page.length < 4) break;
    }
    assert.equal(found.size, (await account.entries()).length);
    assert.equal([...found.values()].filter((free) => free === funded).length, 6);
  });

  it("headers and blocks read by hash and by number agree, and so does the state at them", async () => {
    const { http: api } = clients;
    const header = await api.rpc.chain.getHeader();
    const hash = await api.rpc.chain.getBlockHash(header.number.toNumber());
    assert.equal(header.hash.toHex(), hash.toHex());
    const { block } = await api.rpc.chain.getBlock(hash);
    assert.equal(block.header.hash.toHex(), hash.toHex());
    const timestamp = await (await api.at(hash)).query.timestamp.now();
    assert.equal(timestamp.toString(), block.extrinsics[0]!.method.args[0]!.toString());
    assert.equal((await api.rpc.chain.getFinalizedHead()).toHex(), hash.toHex());
    const { partialFee } = await api.tx.system.remark("0x1234").paymentInfo(pairOf("//Alice"));
    assert.ok(partialFee.toBigInt() > 0n);
    await chain.newBlock();
    const next = await api.rpc.chain.getHeader();
    assert.equal(next.number.toNumber(), header.number.toNumber() + 1, "it is seen at once");
  });

  it("over HTTP, extrinsics and dev_ methods are refused, although the node has them", async () => {
    const { http: api } = clients;
    // The client believes rpc_methods, which the gateway answers from its own whitelist.
    assert.equal("submitExtrinsic" in api.rpc.author, false);
    const remark = (await api.tx.system.remark("0x12").signAsync(pairOf("//Dave"))).toHex();
    const head = await resultOf(chain.url, "chain_getBlockHash");
    const calls = [
      { id: 1, method: "author_submitExtrinsic", params: [remark] },
      { id: 2, method: "dev_newBlock", params: [] },
      { id: 3, method: "dev_setStorage", params: [[["0x1234", "0x01"]]] },
      { id: 4, method: "dev_setHead", params: [0] },
    ];
    const answers = await clients.send(calls.map((each) => ({ jsonrpc: "2.0", ...each })));
    assert.deepEqual(answers, [1, 2, 3, 4].map(notAllowed));
    assert.deepEqual(await pending(), []);
    assert.equal(await resultOf(chain.url, "chain_getBlockHash"), head);
    assert.equal(await resultOf(chain.url, "state_getStorage", "0x1234"), null);
    assert.equal((await call(chain.url, "author_submitExtrinsic", [remark])).error, undefined);
    await chain.newBlock();
  });

  it("new and finalized heads, and changes of storage, arrive each once and in order", async () => {
    const { ws: api } = clients;
    const start = (await api.rpc.chain.getHeader()).number.toNumber();
    const seen: number[][] = [[], [], []];
    const stops = [
      await api.rpc.chain.subscribeNewHeads((head) => void seen[0]!.push(head.number.toNumber())),
      await api.rpc.chain.subscribeFinalizedHeads(
        (head) => void seen[1]!.push(head.number.toNumber()),
      ),
      await api.query.system.number((number: { toString(): string }) => {
        seen[2]!.push(Number(number.toString()));
      }),
    ];
    for (let blocks = 0; blocks <= 3; blocks++) {
      if (blocks > 0) await chain.newBlock();
      await until(() => seen.every((each) => each.length > blocks));
    }
    const expected = [start, start + 1, start + 2, start + 3];
    assert.deepEqual(seen, [expected, expected, expected]);
    for (const stop of stops) stop();
  });

  it("@polkadot/api submits over WebSocket: each state arrives until the finalization", async () => {
    const { ws: api } = clients;
    const signed = await api.tx.system.remarkWithEvent("0x12").signAsync(pairOf("//Alice"));
    const states: string[] = [];
    await api.rpc.author.submitAndWatchExtrinsic(signed, ({ type }) => {
      states.push(type);
    });
    await until(() => states.includes("Broadcast"));
    assert.equal((await pending()).length, 1);
    await chain.newBlock();
    await until(() => states.includes("Finalized"));
    assert.deepEqual(states, ["Ready", "Broadcast", "InBlock", "Finalized"]);
    const remark = await api.tx.system.remark("0x13").signAsync(pairOf("//Alice"));
    const hash = await api.rpc.author.submitExtrinsic(remark);
    assert.equal(hash.toHex(), remark.hash.toHex());
    await chain.newBlock();
    assert.deepEqual(await pending(), []);
    await assert.rejects(api.rpc.author.submitExtrinsic(remark), /stale/);
  });

  it("PAPI follows blocks to their finalization, and reads at the finalized block", async () => {
    const { papi } = clients;
    assert.equal((await papi.getChainSpecData()).name, "coretime-polkadot");
    const start = (await papi.getFinalizedBlock()).number;
    const numbers: number[] = [];
    const following = papi.finalizedBlock$.subscribe(({ number }) => void numbers.push(number));
    for (let block = 1; block <= 3; block++) {
      await chain.newBlock();
      await until(() => numbers.includes(start + block));
    }
    following.unsubscribe();
    const { hash, number } = await papi.getFinalizedBlock();
    assert.equal((await papi.getBlockHeader(hash)).number, number);
    assert.equal((await papi.getBlockBody(hash)).length, 2);
    const api = papi.getUnsafeApi();
    // All entries of a map are not read here: with PAPI 2.2 that fails with chopsticks 1.5 without a gateway, too.
    const account = (await api.query["System"]!["Account"]!.getValue(ferdie)) as {
      data: { free: bigint };
    };
    assert.equal(account.data.free, BigInt(funded));
    assert.equal(await api.apis["AccountNonceApi"]!["account_nonce"]!(ferdie), 0);
  });

  it("PAPI submits: signSubmitAndWatch and signAndSubmit reach the finalization", async () => {
    const pair = pairOf("//Bob");
    const signer = getPolkadotSigner(pair.publicKey, "Sr25519", (input) => pair.sign(input));
    const { tx } = clients.papi.getUnsafeApi();
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
    await until(async () => failures.length > 0 || (await pending()).length === 1);
    await chain.newBlock();
    await until(() => events.includes("finalized") || failures.length > 0);
    assert.deepEqual(failures, []);
    assert.deepEqual(
      [...new Set(events)],
      ["signed", "broadcasted", "txBestBlocksState", "finalized"],
    );
    const submitted = remark().signAndSubmit(signer);
    await until(async () => (await pending()).length === 1);
    await chain.newBlock();
    assert.equal((await submitted).ok, true);
  });

  it("the accounts of a block are read in one subscription, as by the older methods", async () => {
    const hash = await resultOf(chain.url, "chain_getFinalizedHead");
    const paged = await resultOf(chain.url, "state_getKeysPaged", accounts, 100, null, hash);
    const keys = paged as readonly string[];
    assert.ok(keys.length >= 6);
    const valueOf = async (key: string): Promise<readonly [string, unknown]> => [
      key,
      await resultOf(chain.url, "state_getStorage", key, hash),
    ];
    const expected = new Map(await Promise.all(keys.map(valueOf)));
    const { url, key: apiKey } = clients.gateway;
    await using client = await connectWs(`${url}/v1/ledger/rpc`, { key: apiKey });
    const items = [{ key: accounts, type: "descendantsValues" }];
    const opening = request("archive_v1_storage", JSON.stringify([hash, items, null]));
    const { result: id } = JSON.parse(await client.ask(opening)) as { result: string };
    const read = new Map<string, unknown>();
    for (;;) {
      const { params } = JSON.parse(await client.next()) as {
        params: { subscription: string; result: { event: string; key: string; value: string } };
      };
      assert.equal(params.subscription, id);
      const { event, key, value } = params.result;
      if (event === "storageDone") break;
      assert.equal(event, "storage");
      read.set(key, value);
    }
    assert.deepEqual(read, expected);
  });

  it("the tools submit an extrinsic once it is confirmed, and find it in the next block", async () => {
    const amount = 1_000_000_000_000n;
    const submit = (params: object): Promise<Called> =>
      tools.call("ledger_submitExtrinsic", params);
    const account = async (address: string) =>
      (await tools.ask("ledger_getAccount", { address })) as {
        readonly nonce: number;
        readonly data: { readonly free: string };
      };
    const transfer = clients.http.tx["balances"]["transferKeepAlive"](ferdie, amount);
    const extrinsic = (await transfer.signAsync(pairOf("//Charlie"), { nonce: 0 })).toHex();
    const [mineBefore, theirsBefore] = [await account(charlie), await account(ferdie)];
    const asked = await submit({ extrinsic });
    assert.equal(asked.status, 202);
    const { confirmation_token, summary } = asked.error?.data.details ?? {};
    assert.deepEqual(summary, {
      pallet: "Balances",
      method: "transfer_keep_alive",
      signer: charlie,
      args: {
        dest: { Id: "1egYCubF1U5CGWiXjQnsXduiJYP49KTs8eX1jn1JrTqCYyQ" },
        value: String(amount),
      },
    });
    assert.deepEqual(await pending(), []);
    const done = await submit({ extrinsic, confirmation_token });
    assert.equal(done.result?.usedCUMilli, 10_000);
    assert.deepEqual(await pending(), [extrinsic]);
    const blockHash = await chain.newBlock();
    const block = await tools.ask("ledger_getBlockDecoded", { hash: blockHash });
    const { decodedExtrinsics, events } = block as {
      decodedExtrinsics: { pallet: string; method: string; isSigned: boolean }[];
      events: { pallet: string; event: string }[];
    };
    const { pallet, method, isSigned } = decodedExtrinsics.at(-1) ?? {};
    assert.deepEqual([pallet, method, isSigned], ["Balances", "transfer_keep_alive", true]);
    assert(events.some(({ pallet: of, event }) => of === "Balances" && event === "Transfer"));
    const [mine, theirs] = [await account(charlie), await account(ferdie)];
    assert.deepEqual([mine.nonce, theirs.nonce], [1, 0]);
    assert.equal(BigInt(theirs.data.free) - BigInt(theirsBefore.data.free), amount);
    assert(BigInt(mineBefore.data.free) - BigInt(mine.data.free) > amount);
    const token = (await submit({ extrinsic })).error?.data.details?.["confirmation_token"];
    const stale = await submit({ extrinsic, confirmation_token: token });
    assert.equal(stale.error?.message, "the node refused the extrinsic");
  });
});
