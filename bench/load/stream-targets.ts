import { join } from "node:path";
import type { Role } from "../../plugins/confidential/protocol/hello.ts";
import { pipeline } from "./pipelines.ts";
import { startPeer, type Peer } from "./process.ts";
import { startSluice } from "./start-sluice.ts";

export interface Backends {
  readonly enclave: Peer;
  readonly model: Peer;
}

export interface StreamTarget {
  readonly name: string;
  readonly termination: Role;
  readonly network: string;
  /** `folder`: for this run alone. The process ends when the peer is disposed of. */
  start(
    backends: Backends,
    folder: string,
  ): Promise<{ readonly peer: Peer; readonly url: string; readonly key: string }>;
}

export const yardstick = "bare ws relay";
export const direct = "the mock enclave itself";

const node = process.execPath;
const targetCore = 0;

const wsUrl = ({ port }: Peer): string => `ws://127.0.0.1:${port}`;

export const streamTargets: readonly StreamTarget[] = [
  {
    name: direct,
    termination: "worker",
    network: "bench",
    start: ({ enclave }) => {
      const peer = {
        ...enclave,
        // This target is an end of the stream and not a relay, so its cost is not compared.
        cpuMicros: () => NaN,
        rssMiB: () => NaN,
        // The process continues when this target ends.
        [Symbol.asyncDispose]: () => Promise.resolve(),
      };
      return Promise.resolve({ peer, url: wsUrl(enclave), key: "" });
    },
  },
  {
    name: yardstick,
    termination: "worker",
    network: "bench",
    async start({ enclave }) {
      const file = join(import.meta.dirname, "peers/ws-relay.ts");
      const peer = await startPeer([node, file, wsUrl(enclave)], { core: targetCore });
      return { peer, url: wsUrl(peer), key: "" };
    },
  },
  sluice("sluice, relay to a worker", "worker", "bench"),
  sluice("sluice, its own enclave", "gateway", "plain"),
];

/** All features are on: key, limits, metering with fsync, receipts, and an access log in a file. */
function sluice(name: string, termination: Role, network: string): StreamTarget {
  return {
    name,
    termination,
    network,
    async start(backends, folder) {
      const { peer, key } = await startSluice(streamPipeline(backends, folder), folder, targetCore);
      return { peer, url: `${wsUrl(peer)}/v1/confidential/stream`, key };
    },
  };
}

function streamPipeline({ enclave, model }: Backends, folder: string): string {
  // The mock enclave prints this.
  const { simulated_root: root } = JSON.parse(enclave.line) as { simulated_root: string };
  const at = ({ port }: Peer): string => `http://127.0.0.1:${port}`;
  return pipeline({
    folder,
    require: "inference",
    sections: {
      networks: {
        bench: {
          kind: "enclave",
          url: `${wsUrl(enclave)}/cstream/1`,
          status: { url: `${at(enclave)}/status` },
          evidence: { kind: "simulated", roots: [root] },
        },
        plain: { kind: "openai", url: at(model), status: { url: `${at(model)}/status` } },
      },
      rate: "0.05",
    },
    route: {
      path: "/v1/confidential/stream",
      websocket: true,
      // All sessions of the load use one key.
      to: { "confidential-stream": { sessionsPerKey: 100_000, evidence: { kind: "simulated" } } },
    },
  });
}
