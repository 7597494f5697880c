/** How requests reach one worker, which depends on what its network speaks: `openai.ts`, `enclave/route.ts`. */
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
  /** Requests that it is answering. */
  inFlight: number;
  succeeded(): void;
  failed(unreachable: boolean): void;
}

/** How an attempt failed. `refused`: the worker's own status. */
export type AttemptFailure =
  | { readonly kind: TransportFailure }
  | { readonly kind: "refused"; readonly status: number };

/** The call that an attempt is made for: its request, and the callbacks for what the worker answers. */
export interface AttemptedCall {
  readonly request: InferenceRequest;
  readonly modelId: string;
  readonly network: { readonly config: NetworkConfig; readonly parts: { readonly log: Log } };
  /** A choice in borrowed bytes. */
  choice(bytes: Buffer, start: number, end: number): void;
  /** All that came in one read has been told. */
  arrived(): void;
  /** `message`: of an answer in one piece. */
  complete(message: WholeMessage | undefined): void;
  failed(worker: AttemptedWorker, failure: AttemptFailure): void;
}

/** One request to one worker; it notifies its call of what comes. */
export interface RunningAttempt {
  readonly worker: AttemptedWorker;
  /** The worker's usage report; undefined while it has sent none that is one. */
  readonly reported: TokenUsage | undefined;
  readonly produced: Produced;
  readonly finishReason: string | undefined;
  /** The worker has all of the request. */
  readonly hasRequest: boolean;
  begin(): void;
  pause(): void;
  resume(): void;
  /** Only the worker's usage is still wanted: asks it to end the answer, if there is a way to ask. */
  wrapUp(): void;
  /** Ends it here and at the worker; the call is not notified any more. */
  abandon(): void;
}

export interface WorkerRoute {
  /** May be offered to callers. */
  readonly admitted: boolean;
  /** What vouches for the place where it runs. */
  readonly evidence: EvidenceKind;
  /** Settles when `admitted` has been found out for the first time. */
  readonly settled: Promise<void>;
  attempt(call: AttemptedCall, worker: AttemptedWorker): RunningAttempt;
  /** Whether the worker answers at all. Never rejects. */
  probe(): Promise<boolean>;
  /** Its network has been read again and still lists it. */
  listedAgain(): void;
  /** Running requests go on. */
  close(): void;
}

/** The ways to the workers of one network. */
export interface Transport {
  /** Closed before the transport is. */
  routeTo(listed: ListedWorker): WorkerRoute;
  /** Resolves when what runs has ended. */
  close(): Promise<void>;
}
