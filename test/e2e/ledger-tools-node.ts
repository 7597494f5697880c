/** Serves recorded chains as a node (../shared/fixtures/chain), with a gateway that offers the ledger tools on /rpc. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { ask as send } from "./ask.ts";
import { startRpcNode, type Answers, type RpcNode } from "./rpc-node.ts";

const fixtures = new URL("../../../shared/fixtures/chain/", import.meta.url);

export const withoutFixtures: string | false =
  process.env["CI"] !== "true" && !existsSync(fixtures) ? "needs ../shared/fixtures/chain" : false;

export type ChainSet = "westend-dev" | "polkadot-coretime" | "midnight-stub";
export const chainSets: readonly ChainSet[] = ["westend-dev", "polkadot-coretime", "midnight-stub"];

interface Header {
  readonly parentHash: string;
  readonly number: string;
}

export interface RecordedBlock {
  readonly number: number;
  readonly hash: string;
  /** The node's result of `chain_getBlock`. */
  readonly block: { readonly block: { readonly header: Header; readonly extrinsics: string[] } };
  /** `System.Events`. */
  readonly events: string | null;
  /** Values of `System.Account` by name. */
  readonly accounts?: Readonly<Record<string, string | null>>;
  readonly specVersionAtHash?: number;
}

export interface RecordedChain {
  readonly genesisHash: string;
  readonly runtimeVersion: { readonly specName: string; readonly specVersion: number };
  readonly keys: {
    readonly "System.Events": string;
    readonly "System.Account": Readonly<Record<string, string>>;
  };
  readonly accounts: Readonly<
    Record<string, { readonly ss58_42: string; readonly ss58_chain: string }>
  >;
  readonly blocks: readonly RecordedBlock[];
  readonly [method: string]: unknown;
}

/** A block as @polkadot/types decodes it. */
export interface ExpectedBlock {
  readonly number: number;
  readonly decodedExtrinsics: readonly {
    readonly index: number;
    readonly palletName: string;
    readonly methodName: string;
    /** Very long values are given as their length (in bytes) and digest. */
    readonly args: string | { readonly length: number };
    readonly isSigned: boolean;
  }[];
  readonly events: readonly {
    readonly index: number;
    readonly phase: string;
    readonly extrinsicIndex?: number;
    readonly palletName: string;
    readonly event: string;
    readonly data: string;
  }[];
}

function read(set: ChainSet, name: string): string {
  return readFileSync(new URL(`${set}/${name}`, fixtures), "utf8").trim();
}

/** Reads the recording; for midnight-stub with the blocks of its upgrade. */
export function recordedChain(set: ChainSet): RecordedChain {
  // The recordings have the shapes above; see ../shared/fixtures/chain/README.md.
  const chain = JSON.parse(read(set, "chain.json")) as RecordedChain;
  if (set !== "midnight-stub") return chain;
  const upgrade = JSON.parse(read(set, "upgrade.json")) as { blocks: RecordedBlock[] };
  // The first one is complete in chain.json.
  return { ...chain, blocks: [...chain.blocks, ...upgrade.blocks.slice(1)] };
}

export function expectedBlocks(set: ChainSet): readonly ExpectedBlock[] {
  return (JSON.parse(read(set, "expected.json")) as { blocks: ExpectedBlock[] }).blocks;
}

/** A node that answers from a recording, and answers for unknown hashes as a real node does. */
export function startRecordedNode(set: ChainSet, more: Answers = {}): Promise<RpcNode> {
  const chain = recordedChain(set);
  const { blocks, keys } = chain;
  const head = blocks.at(-1);
  assert(head !== undefined);
  const at = (hash: unknown): RecordedBlock | undefined =>
    hash === undefined || hash === null ? head : blocks.find((block) => block.hash === hash);
  const versionAt = (hash: unknown): number =>
    at(hash)?.specVersionAtHash ?? chain.runtimeVersion.specVersion;
  const fixed = [
    "system_chain",
    "system_chainType",
    "system_name",
    "system_version",
    "system_properties",
    "system_health",
  ];
  const storage = (key: unknown, block: RecordedBlock): string | null => {
    if (key === keys["System.Events"]) return block.events;
    const name = Object.keys(keys["System.Account"]).find(
      (account) => keys["System.Account"][account] === key,
    );
    return (name !== undefined && block.accounts?.[name]) || null;
  };
  return startRpcNode({
    ...Object.fromEntries(fixed.map((method) => [method, () => chain[method]])),
    chain_getBlockHash: ([number]) =>
      number === undefined || number === null
        ? head.hash
        : (blocks.find((block) => block.number === Number(number))?.hash ?? null),
    chain_getFinalizedHead: () => head.hash,
    chain_getHeader: ([hash]) => at(hash)?.block.block.header ?? null,
    chain_getBlock: ([hash]) => at(hash)?.block ?? null,
    state_getRuntimeVersion: ([hash]) =>
      at(hash) && { ...chain.runtimeVersion, specVersion: versionAt(hash) },
    state_getMetadata: ([hash]) =>
      at(hash) &&
      read(set, versionAt(hash) === 18001 ? "metadata-v14-spec18001.hex" : "metadata-v14.hex"),
    state_getStorage: ([key, hash]) => {
      const block = at(hash);
      return block && storage(key, block);
    },
    state_queryStorageAt: ([wanted, hash]) => {
      const block = at(hash);
      const changes = (wanted as string[]).map((key) => [key, block && storage(key, block)]);
      return block && [{ block: block.hash, changes }];
    },
    ...more,
  });
}

const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
upstreams:
  ledger: { urls: "\${NODE_URL}" }
tools: [{ ledger-tools: { write: true } }, gateway-batch]
lists:
  agents: [request-id, authenticate, rate-limit, { authorize: { require: key } }, meter]
routes:
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /v1/ledger/rpc, methods: [POST], run: [{ use: agents }], to: { ledger-rpc: { upstream: ledger } } }
`;

export interface ToolsGateway extends AsyncDisposable {
  readonly gateway: TestGateway;
  call(tool: string, params: unknown, key?: string): Promise<Called>;
  ask(tool: string, params: unknown): Promise<unknown>;
}

export interface Called {
  readonly status: number;
  readonly result?: { readonly content: unknown; readonly usedCUMilli: number };
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data: {
      readonly errorCode: string;
      readonly details?: Readonly<Record<string, unknown>>;
    };
  };
}

export async function startToolsGateway(nodeUrl: string): Promise<ToolsGateway> {
  const gateway = await startTestGateway({
    pipeline,
    env: { NODE_URL: nodeUrl },
    account: { capabilities: ["ledger:read", "ledger:write"] },
  });
  const call = async (tool: string, params: unknown, key = gateway.key): Promise<Called> => {
    const body = { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool, params } };
    const { status, json } = await send(`${gateway.url}/rpc`, { key, body });
    // gateway.md, "Per-transport shapes".
    return { ...json, status };
  };
  return {
    gateway,
    call,
    async ask(tool, params) {
      const { result, error } = await call(tool, params);
      assert.equal(error, undefined, `${tool}: ${JSON.stringify(error)}`);
      return result?.content;
    },
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}
