import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import type { PoolConfig } from "../options.ts";
import type { NodeClient } from "./node-call.ts";
import { HttpClient } from "./http-client.ts";
import { BatchingClient } from "./batching-client.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { PooledNode } from "./pooled-node.ts";
import { WsClient } from "./ws-client.ts";

export type NodesConfig = Pick<
  PoolConfig,
  | "name"
  | "urls"
  | "connectMs"
  | "headersMs"
  | "idleMs"
  | "connections"
  | "answerBytes"
  | "probeMs"
  | "probeTimeoutMs"
  | "maxLag"
  | "maxHeadAgeMs"
  | "hedging"
>;

export interface NodeOptions {
  readonly upstream: NodesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export function openNodes(options: NodeOptions): readonly PooledNode[] {
  const urls = options.upstream.urls.map((url) => new URL(url));
  return urls.map((url, index) => {
    // Host and port, with the index in the configuration if two URLs share them.
    const shared = urls.filter((other) => other.host === url.host).length > 1;
    return openNode(options, url, index, shared ? `${url.host}#${index}` : url.host);
  });
}

function openNode(options: NodeOptions, url: URL, index: number, label: string): PooledNode {
  const { upstream, clock, log } = options;
  const { connectMs, headersMs, idleMs, answerBytes } = upstream;
  const limits = { url, connectMs, headersMs, idleMs, answerBytes, clock, log };
  const metrics = nodeMetrics(options.metrics, upstream.name, label);
  const probeTimeoutMs = Math.min(upstream.probeTimeoutMs, headersMs);
  // A Substrate node serves both at one port.
  const socketUrl = new URL(url.href.replace(/^http/, "ws"));
  let client: NodeClient;
  let probeClient: NodeClient;
  if (url.protocol === "ws:" || url.protocol === "wss:") {
    client = probeClient = new WsClient({ ...limits, connections: 1 });
  } else {
    // One connection is reserved for probes, so that a node that is busy with calls does not appear to be unreachable.
    const connections = Math.max(1, upstream.connections - 1);
    client = new BatchingClient(new HttpClient({ ...limits, connections }), clock);
    // Its connection must be free again when a probe has timed out.
    probeClient = new HttpClient({ ...limits, headersMs: probeTimeoutMs, connections: 1 });
  }
  return new PooledNode({
    index,
    label,
    url: socketUrl,
    client,
    probeClient,
    metrics,
    clock,
    probeTimeoutMs,
  });
}
