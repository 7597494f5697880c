/** How requests reach one worker, which depends on what its network speaks: `openai.ts`, `enclave/route.ts`. */
import type { EvidenceKind, TokenUsage } from "../services/networks.ts";
import type { Call } from "./call.ts";
import type { ListedWorker } from "./status.ts";
import type { Worker } from "./worker.ts";

/** One request to one worker; it tells its call what comes. */
export interface RunningAttempt {
  readonly worker: Worker;
  /** Of what has come. */
  readonly usage: TokenUsage;
  readonly finishReason: string | undefined;
  begin(): void;
  pause(): void;
  resume(): void;
  /** Ends it here and at the worker; nothing is told any more. */
  abandon(): void;
}

export interface WorkerRoute {
  /** May be offered to callers. */
  readonly admitted: boolean;
  /** What vouches for the place where it runs. */
  readonly evidence: EvidenceKind;
  /** Settles when `admitted` has been found out for the first time. */
  readonly settled: Promise<void>;
  attempt(call: Call, worker: Worker): RunningAttempt;
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
