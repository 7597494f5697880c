import { upstreamIn } from "sluice-gateway/internal/http";
import {
  exampleRequest,
  hasSameHost,
  type Demo,
  type DemoKey,
  type ExampleRequest,
} from "sluice-gateway/internal/module";
import { isObject } from "sluice-gateway/internal/toolkit";
import { startDemoNode } from "./node.ts";

export const demo: Demo = {
  help: {
    text: `The demo node replays recorded answers of a real runtime, unless LEDGER_RPC_URL is the address of your own node.`,
    variables: { LEDGER_RPC_URL: "address of your own node: http, https, ws or wss" },
  },

  async start(env, started) {
    if (env["LEDGER_RPC_URL"]) return {};
    const node = await startDemoNode();
    started.defer(() => node.close());
    return { LEDGER_RPC_URL: node.url };
  },

  async describe({ gateway: { config, url }, key, demoEnv }) {
    const route = config.routes.find(({ to }) => to.name === "ledger-rpc");
    if (route === undefined) {
      return {
        position: 1,
        lines: [["node RPC", "pipeline.yaml has no route to the node"]],
        json: { node: "" },
      };
    }
    const rpcUrl = url + route.path;
    const upstream = route.to.options["upstream"];
    const urls = typeof upstream === "string" ? (upstreamIn(config, upstream)?.urls ?? []) : [];
    const demoUrl = demoEnv["LEDGER_RPC_URL"];
    // The demo node is unused if the pipeline does not use LEDGER_RPC_URL.
    const isDemo = demoUrl !== undefined && urls.some((each) => hasSameHost(each, demoUrl));
    const hosts = urls.map((each) => new URL(each).host).join(", ");
    const node = isDemo
      ? "demo node with recorded answers (set LEDGER_RPC_URL to use your own)"
      : hosts;
    const head = urls[0] === undefined ? undefined : await headOf(urls[0]);
    return {
      position: 1,
      lines: [
        ["node RPC", rpcUrl],
        ["node", node],
      ],
      json: { rpc_url: rpcUrl, node: isDemo ? "demo" : hosts },
      requests: requestsTo(rpcUrl, key, head),
    };
  },
};

/** Storage key of `Timestamp.Now`, which almost every Substrate runtime has. */
const timestampNow = "0xf0c365c3cf59d671eb72da0e7a4113c49f1f0515f462cdcf84e0f1d6045dfcbb";

/** `blockHash`: undefined if it is not known; then the head is read. */
function requestsTo(
  url: string,
  key: DemoKey | undefined,
  blockHash: string | undefined,
): ExampleRequest[] {
  const call = (id: number, method: string, params: readonly unknown[] = []) => ({
    jsonrpc: "2.0",
    id,
    method,
    params,
  });
  const storageParams = blockHash === undefined ? [timestampNow] : [timestampNow, blockHash];
  return [
    call(1, "system_health"),
    call(2, "state_getStorage", storageParams),
    [call(1, "system_chain"), call(2, "chain_getBlockHash", [0]), call(3, "chain_getHeader")],
  ].map((body) => exampleRequest(url, key, JSON.stringify(body)));
}

/**
 * Returns the hash of the finalized head. It is read from the node directly, so that nothing is charged. Undefined for
 * a node that only accepts WebSockets, or that does not answer within 3 s (it may still be starting).
 */
async function headOf(nodeUrl: string): Promise<string | undefined> {
  try {
    const response = await fetch(nodeUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"chain_getFinalizedHead","params":[]}',
      signal: AbortSignal.timeout(3_000),
    });
    const answer: unknown = await response.json();
    const result = isObject(answer) ? answer["result"] : undefined;
    return typeof result === "string" ? result : undefined;
  } catch {
    return undefined;
  }
}
