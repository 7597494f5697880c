/** Opens the connections to one node, by the scheme of its url. */
import type { PoolConfig } from "../options.ts";
import type { Clock } from "../../../../src/services/clock.ts";
import type { Metrics } from "../../../../src/services/metrics.ts";
import type { NodeClient } from "./call.ts";
import { HttpClient } from "./http-client.ts";
import { MergingClient } from "./merge.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { PooledNode } from "./pooled-node.ts";
import { WsClient } from "./ws-client.ts";

/** The members of an upstream that a pool reads. */
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
  | "maxLag"
  | "maxHeadAgeMs"
>;

export interface NodeOptions {
  readonly upstream: NodesConfig;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Cheap calls of one turn ride as one batch over HTTP. */
  readonly merge: boolean;
}

/** One node for each url, in the order of the configuration. */
export function openNodes(options: NodeOptions): readonly PooledNode[] {
  const urls = options.upstream.urls.map((url) => new URL(url));
  return urls.map((url, index) => {
    // Host and port; with its place in the configuration where two urls share them.
    const shared = urls.filter((other) => other.host === url.host).length > 1;
    return openNode(options, url, index, shared ? `${url.host}#${index}` : url.host);
  });
}

function openNode(options: NodeOptions, url: URL, index: number, label: string): PooledNode {
  const { upstream, clock, merge } = options;
  const { connectMs, headersMs, idleMs, answerBytes } = upstream;
  const limits = { url, connectMs, headersMs, idleMs, answerBytes, clock };
  const metrics = nodeMetrics(options.metrics, upstream.name, label);
  if (url.protocol === "ws:" || url.protocol === "wss:") {
    const client = new WsClient({ ...limits, connections: 1 });
    return new PooledNode({ index, label, client, probeClient: client, metrics, clock });
  }
  // One of the connections is kept for probes, so that a crowd of calls cannot make a node look dead.
  const http = new HttpClient({ ...limits, connections: Math.max(1, upstream.connections - 1) });
  const client: NodeClient = merge ? new MergingClient(http, clock) : http;
  const probeClient = new HttpClient({ ...limits, connections: 1 });
  return new PooledNode({ index, label, client, probeClient, metrics, clock });
}
