/** Compares the answers of the gateway with those of smoldot, another server of the JSON-RPC interface specification. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../plugins/contracts/testing.ts";
import { connectWs } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { withoutSpecs } from "./chopsticks.ts";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";
import { startLedgerGateway } from "./shipped-gateway.ts";

const stack = new AsyncDisposableStack();
let node: NodeProcess;
let gateway: TestGateway;
if (withoutSpecs === false) {
  before(async () => {
    node = stack.use(await startNodeProcess("./smoldot-process.ts"));
    gateway = stack.use(await startLedgerGateway(node.url));
  });
  after(() => stack.disposeAsync());
}

const unknown = `0x${"77".repeat(32)}`;

interface Message {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: { readonly code: number };
  readonly params?: {
    readonly result: {
      readonly event: string;
      readonly finalizedBlockHashes?: readonly string[];
    };
  };
}

/** The messages of a server: results and events with their ids replaced, and the codes of errors. */
type Said = readonly [call: string, answer: unknown];

async function interview(url: string, key?: string): Promise<readonly Said[]> {
  await using client = await connectWs(url, key === undefined ? {} : { key });
  const said: Said[] = [];
  const events: Message[] = [];
  const names = new Map<string, string>();
  let nextId = 0;
  const next = async (): Promise<Message> => JSON.parse(await client.next()) as Message;
  /** Replaces ids, which every server chooses freely. */
  const plain = (value: unknown): unknown => {
    const text = [...names].reduce(
      (all, [id, name]) => all.replaceAll(id, name),
      JSON.stringify(value),
    );
    return JSON.parse(text);
  };
  const call = async (name: string, ...params: readonly unknown[]): Promise<unknown> => {
    const id = ++nextId;
    const method = name.includes("_") ? name : `chainHead_v1_${name}`;
    client.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    let message = await next();
    for (; message.id !== id; message = await next()) events.push(message);
    const { result, error } = message;
    const started = (result as { operationId?: string } | null)?.operationId;
    if (name === "follow" && typeof result === "string") names.set(result, `FOLLOW ${id}`);
    if (started !== undefined) names.set(started, `OPERATION ${id}`);
    const answer = error === undefined ? plain(result) : { code: error.code };
    said.push([`${name} ${JSON.stringify(plain(params))}`, answer]);
    return result;
  };
  const event = async (wanted: string): Promise<readonly string[]> => {
    let found = events.findIndex(({ params }) => params?.result.event === wanted);
    while (found < 0) {
      events.push(await next());
      found = events.findIndex(({ params }) => params?.result.event === wanted);
    }
    const [message] = events.splice(found, 1);
    said.push([`event ${wanted}`, plain(message?.params)]);
    return message?.params?.result.finalizedBlockHashes ?? [];
  };

  await call("chainSpec_v1_chainName");
  await call("chainSpec_v1_genesisHash");
  await call("chainSpec_v1_properties");
  const follow = await call("follow", false);
  const [block] = await event("initialized");
  await call("header", follow, block);
  await call("header", follow, unknown);
  await call("header", "unknown", block);
  await call("body", follow, unknown);
  await call("body", "unknown", block);
  await call("storage", follow, unknown, [{ key: "0x01", type: "value" }], null);
  await call("storage", "unknown", block, [{ key: "0x01", type: "value" }], null);
  await call("call", follow, unknown, "Core_version", "0x");
  await call("call", follow, block, "Core_version", "0x");
  await call("call", "unknown", block, "Core_version", "0x");
  await call("continue", follow, "unknown");
  await call("continue", "unknown", "unknown");
  await call("stopOperation", follow, "unknown");
  await call("stopOperation", "unknown", "unknown");
  await call("unpin", follow, unknown);
  await call("unpin", follow, [block, block]);
  await call("unpin", follow, [block, unknown]);
  await call("unpin", "unknown", block);
  await call("follow", false);
  await call("follow", false);
  await call("unpin", follow, block);
  await call("header", follow, block);
  await call("unpin", follow, block);
  await call("unfollow", follow);
  await call("unfollow", follow);
  await call("header", follow, block);
  return said;
}

/** Where smoldot 2.0 answers -32602, although the specification and the gateway have a code of its own. */
const ownCodes: ReadonlyMap<string, number> = new Map([
  ["unpin", -32801],
  ["call", -32802],
]);

function asSpecified([call, answer]: Said): Said {
  const { code } = (answer ?? {}) as { readonly code?: number };
  const own = ownCodes.get(call.split(" ", 1)[0] ?? "");
  return code === -32602 && own !== undefined ? [call, { code: own }] : [call, answer];
}

test("the gateway answers as smoldot does", { skip: withoutSpecs }, async () => {
  const expected = (await interview(node.url)).map(asSpecified);
  const actual = await interview(`${gateway.url}/v1/ledger/rpc`, gateway.key);
  assert.deepEqual(actual, expected);
});
