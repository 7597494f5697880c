import type { Clock, Log } from "sluice-gateway/plugin";
import type { ClientMemory, Session } from "../client/client.ts";
import type { Verification } from "./verification.ts";

/** An answered or failed request, without its content. */
export interface RequestRecord {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly gateway: string;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly price: string;
  /** Price of one native token in USD, as in the bill. */
  readonly rate: string | undefined;
  /** The charge in milli-CU, as the gateway states it. Undefined without a bill. */
  readonly billedMilliCu: number | undefined;
  /** The check that the answer or its bill has failed, and why. Undefined if all passed. */
  readonly failedCheck: string | undefined;
}

export interface SealedDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly memory: ClientMemory;
  readonly record: (request: RequestRecord) => void;
  readonly closed: (route: SealedSessions) => void;
}

export interface ReservedSession {
  readonly session: Session;
  readonly maxOutputTokens: number;
  /** Time from which no further request is sent over it, in milliseconds since 1970. */
  readonly usableUntil: number;
  readonly verification: Verification;
}

export interface SealedSessions {
  readonly deps: SealedDeps;
  /** Returns an idle session, or a new one. Rejects with a ConfidentialError if it cannot be opened. */
  reserve(maxTokens: number | undefined): Promise<ReservedSession>;
  /** Keeps the session for the next request, if it can have one. */
  release(reserved: ReservedSession): void;
}
