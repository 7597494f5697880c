/** Starts @polkadot/api as a client of the gateway, for the tests with real clients. */
import { ApiPromise, HttpProvider, WsProvider } from "@polkadot/api";
import type { TestGateway } from "../../plugins/contracts/testing.ts";
import { post } from "../plugins/ledger/demo/rpc-client.ts";
import { startLedgerGateway } from "./shipped-gateway.ts";

export interface Client extends AsyncDisposable {
  readonly api: ApiPromise;
  readonly gateway: TestGateway;
  readonly rpcUrl: string;
  /** Sends a body to the node proxy with the client's key. */
  send(body: unknown): Promise<{ readonly status: number; readonly json: unknown }>;
}

/** Starts the gateway with the shipped pipeline in front of a node, and connects. */
export async function connectThroughGateway(nodeUrl: string): Promise<Client> {
  const gateway = await startLedgerGateway(nodeUrl);
  const rpcUrl = `${gateway.url}/v1/ledger/rpc`;
  const headers = { Authorization: `Bearer ${gateway.key}` };
  try {
    const api = await ApiPromise.create({
      provider: new HttpProvider(rpcUrl, headers),
      noInitWarn: true,
      throwOnConnect: true,
    });
    return {
      api,
      gateway,
      rpcUrl,
      async send(body) {
        const all = { ...headers, "content-type": "application/json" };
        const { status, text } = await post(rpcUrl, JSON.stringify(body), all);
        return { status, json: text === "" ? undefined : JSON.parse(text) };
      },
      async [Symbol.asyncDispose]() {
        await api.disconnect();
        await gateway[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await gateway[Symbol.asyncDispose]();
    throw error;
  }
}

/** Connects with the usual provider of @polkadot/api, WsProvider. */
export function connectByWebSocket(url: string): Promise<ApiPromise> {
  return ApiPromise.create({
    provider: new WsProvider(url),
    noInitWarn: true,
    throwOnConnect: true,
  });
}

/** The gateway's answer to a method that is not whitelisted. */
export const notAllowed = (id: number): unknown => ({
  jsonrpc: "2.0",
  id,
  error: { code: -32601, message: "Method Not Allowed" },
});
