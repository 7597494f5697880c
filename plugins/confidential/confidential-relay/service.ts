import type { HeldBytes, UnfinishedBytes } from "sluice-gateway/internal/http";
import type { Clock, Log, Memory, Metrics, MemoryHold } from "sluice-gateway/plugin";
import type { Confidential, Stream, StreamOptions } from "sluice-gateway/services";
import { fault, type Fault } from "../protocol/fault.ts";
import type { Hello, Role } from "../protocol/hello.ts";
import type { SeenCounters } from "../protocol/seen-counters.ts";
import type { QuoteLimit } from "./quote-limit.ts";
import type { RequestBill } from "./billed-request.ts";
import type { EvidenceCache } from "./evidence-cache.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { readSignedPolicy } from "./policy.ts";
import type { AttestedUpstream } from "./open-enclave.ts";
import { StreamSession, type StreamSessionDeps } from "./session.ts";
import type { StreamStore } from "./stream-store.ts";

export interface StreamNetwork {
  readonly name: string;
  readonly termination: Role;
  /** Used only if the network's workers decrypt. `helloBytes`: the `hello` frame as received. */
  openStream(helloBytes: Uint8Array, hello: Hello): Promise<AttestedUpstream | Fault>;
}

export interface OwnEnclaves {
  readonly ready: Promise<void>;
  /** `hold`: accounts for the memory of a request until the model answers. */
  open(
    network: string,
    helloBytes: Uint8Array,
    hello: Hello,
    hold: () => HeldBytes,
  ): Promise<AttestedUpstream | Fault>;
  /** Running sessions continue. */
  close(): void;
}

export interface SharedStreamState extends StreamStore {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly counters: SeenCounters;
  readonly evidenceCache: EvidenceCache;
  readonly quoteLimit: QuoteLimit;
  readonly sessions: OpenSessions;
  readonly unfinished: UnfinishedBytes;
}

export interface ConfidentialDeps extends SharedStreamState {
  readonly networks: readonly StreamNetwork[];
  readonly memory: Memory;
  openOwn(options: StreamOptions): OwnEnclaves;
  readonly policy: Confidential["policy"];
}

export function createConfidential(deps: ConfidentialDeps): Confidential {
  const { evidenceCache, receipts, policy, log } = deps;
  return {
    stream: (options) => createStream(deps, deps.openOwn(options), options),
    evidence: (digest) => evidenceCache.find(digest),
    async receipt(session, rid) {
      try {
        return await receipts.find(session, rid);
      } catch (error) {
        log.error({ err: error }, "cannot read a receipt");
        throw error;
      }
    },
    policy,
    readPolicy: (document) => readSignedPolicy(document, deps.clock),
  };
}

function createStream(
  deps: ConfidentialDeps,
  own: OwnEnclaves,
  { sessionsPerKey, unfinished: limits }: StreamOptions,
): Stream {
  const { clock, log, counters, receipts, metrics, quoteLimit, sessions } = deps;
  const networks = new Map(deps.networks.map((network) => [network.name, network]));
  const requests = metrics.counter(
    "sluice_stream_requests_total",
    "Requests of the encrypted stream, by the verdict on their usage report.",
    ["network", "verdict"],
  );
  const missing = metrics
    .gauge(
      "sluice_stream_reports_missing",
      "Usage reports that are missing from their sequence of numbers.",
    )
    .with({});
  const shared: StreamSessionDeps = {
    ...deps,
    async open(bytes, hello, { workspaceId, keyId }) {
      const network = networks.get(hello.network);
      if (network === undefined) return fault("NETWORK_NOT_AVAILABLE", "unknown network");
      if (network.termination !== hello.termination) {
        const message = `the network has the termination "${network.termination}"`;
        return fault("TERMINATION_NOT_AVAILABLE", message);
      }
      if (hello.freshness === "quote" && !quoteLimit(workspaceId)) {
        return fault("RATE_LIMITED", "too many quotes requested");
      }
      counters.forget(clock.now() / 1000);
      return network.termination === "worker"
        ? network.openStream(bytes, hello)
        : own.open(network.name, bytes, hello, () =>
            holdInBoth(deps.unfinished.hold(keyId, limits), () =>
              deps.memory.hold(keyId, "request"),
            ),
          );
    },
    keep({ receipt, verdict, isEmpty, isImplausible }: RequestBill) {
      const { network } = receipt.pricing;
      requests.with({ network, verdict: verdict.unverifiedReason ?? "verified" }).add(1);
      missing.set(counters.missing());
      if (isImplausible) {
        const { session, rid } = receipt;
        log.warn(
          { network, session, rid },
          "a usage report has more tokens than its answer has bytes",
        );
      }
      // A client can send any number of requests without a result, so they leave no receipt.
      return isEmpty ? Promise.resolve(true) : receipts.keep(receipt);
    },
  };
  return {
    ready: own.ready,
    admit: (keyId) => sessions.begin(keyId, sessionsPerKey),
    serve: (connection, customer) => new StreamSession(connection, customer, shared).finished,
    close: () => own.close(),
  };
}

/** `holdShared`: starts to count against the bound of the process. A request without bytes is not counted there. */
function holdInBoth(own: HeldBytes, holdShared: () => MemoryHold): HeldBytes {
  let shared: MemoryHold | undefined;
  const release = (): void => {
    shared?.[Symbol.dispose]();
    shared = undefined;
  };
  return {
    get bytes() {
      return own.bytes;
    },
    resize(bytes) {
      const before = own.bytes;
      const exceeded = own.resize(bytes);
      if (bytes === 0) release();
      if (exceeded !== undefined || bytes === 0) return exceeded;
      shared ??= holdShared();
      if (shared.resize(bytes)) return undefined;
      own.resize(before);
      return "total";
    },
    [Symbol.dispose]() {
      own[Symbol.dispose]();
      release();
    },
  };
}
