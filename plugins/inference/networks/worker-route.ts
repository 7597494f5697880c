/**
 * The route to one worker, which depends on the protocol of its network: `openai-transport.ts`, or
 * plugins/confidential/enclave-workers.
 */
import type { NetworkConfig } from "../../../src/config/config.ts";
import type {
  EvidenceKind,
  InferenceRequest,
  TokenUsage,
  WholeMessage,
} from "../../../src/services/networks.ts";
import type { TransportFailure } from "./worker-connection.ts";
import type { Log } from "../../../src/services/log.ts";
import type { ListedWorker } from "./status-document.ts";
import type { Produced } from "./token-usage.ts";

/** A worker as an attempt sees it. */
export interface AttemptedWorker {
  readonly id: string;
  /** Number of requests in flight. */
  inFlight: number;
  succeeded(): void;
  failed(unreachable: boolean): void;
}

/** The reason why an attempt failed. `refused`: the worker answered with this status. */
export type AttemptFailure =
  | { readonly kind: TransportFailure }
  | { readonly kind: "refused"; readonly status: number };

/** The call that an attempt is made for: its request, and the callbacks for what the worker answers. */
export interface AttemptedCall {
  readonly request: InferenceRequest;
  readonly modelId: string;
  readonly network: { readonly config: NetworkConfig; readonly parts: { readonly log: Log } };
  /** Called with a choice in borrowed bytes. */
  choice(bytes: Buffer, start: number, end: number): void;
  /** Called after all data of one read has been passed on. */
  arrived(): void;
  /** `message`: the answer, if it is in one piece. */
  complete(message: WholeMessage | undefined): void;
  failed(worker: AttemptedWorker, failure: AttemptFailure): void;
}

/** One request to one worker. It reports the answer to its call. */
export interface RunningAttempt {
  readonly worker: AttemptedWorker;
  /** The worker's usage report. Undefined while it has not sent a valid one. */
  readonly reported: TokenUsage | undefined;
  readonly produced: Produced;
  readonly finishReason: string | undefined;
  /** True once the worker has the whole request. */
  readonly hasRequest: boolean;
  begin(): void;
  pause(): void;
  resume(): void;
  /**
   * Called when only the worker's usage is still needed. Asks the worker to end the answer, if the protocol allows it.
   */
  wrapUp(): void;
  /** Ends the attempt in the gateway and at the worker. The call is not notified any more. */
  abandon(): void;
}

export interface WorkerRoute {
  /** True if the worker may be offered to callers. */
  readonly admitted: boolean;
  /** The kind of evidence for the machine that the worker runs on. */
  readonly evidence: EvidenceKind;
  /** Resolves when `admitted` has been determined for the first time. */
  readonly settled: Promise<void>;
  attempt(call: AttemptedCall, worker: AttemptedWorker): RunningAttempt;
  /** Resolves to true if the worker answers. Never rejects. */
  probe(): Promise<boolean>;
  /** Called when a new status document still lists the worker. */
  listedAgain(): void;
  /** Closes the route. Running requests are completed. */
  close(): void;
}

/** The connections to all workers of one network. */
export interface Transport {
  /** Returns the route to a worker. The caller closes it before the transport. */
  routeTo(listed: ListedWorker): WorkerRoute;
  /** Resolves when all running requests have ended. */
  close(): Promise<void>;
}
