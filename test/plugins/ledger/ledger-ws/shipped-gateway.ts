/** The shipped pipeline in front of scripted nodes, and callers of its WebSocket. */
import { readFile } from "node:fs/promises";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../../../plugins/contracts/testing.ts";
import { request } from "../ledger/fixture.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { connectWs, type WsClient } from "./ws-client.ts";

const shipped = await readFile(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");
export const path = "/v1/ledger/rpc";

/** Starts a gateway, and waits until its nodes are up. `surface`: settings of `ledger-ws`. */
export async function startShipped(
  nodes: readonly { readonly url: string }[],
  { upstream = "probeMs: 100", surface = "", methods = "" } = {},
): Promise<TestGateway> {
  const gateway = await startTestGateway({
    pipeline: shipped
      .replace("aliases: {", `${upstream}\n    aliases: {`)
      .replace("methods: {", `methods: { ${methods}`)
      .replaceAll("ledger-ws: { upstream: ledger }", `ledger-ws: { upstream: ledger, ${surface} }`),
    env: { LEDGER_RPC_URL: nodes.map(({ url }) => url).join(",") },
  });
  await untilNodesUp(gateway, nodes.length);
  return gateway;
}

export async function usedBy(gateway: TestGateway, workspaceId: string): Promise<number> {
  return (await gateway.gateway.use("metering")!.workspaceUsage(workspaceId)).includedMilliCu;
}

export interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

export interface Caller extends AsyncDisposable {
  readonly client: WsClient;
  readonly used: () => Promise<number>;
  /** Sends a call, with params as JSON text, and returns its answer. Skips notifications before it. */
  readonly call: (method: string, params?: string) => Promise<Answer>;
}

export async function connectCaller(
  gateway: TestGateway,
  { key, workspaceId }: TestKey,
): Promise<Caller> {
  const client = await connectWs(gateway.url + path, { key });
  return {
    client,
    used: () => usedBy(gateway, workspaceId),
    async call(method, params = "[]") {
      let text = await client.ask(request(method, params));
      while (text.startsWith('{"jsonrpc":"2.0","method"')) text = await client.next();
      return JSON.parse(text) as Answer;
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}
