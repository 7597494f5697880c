/**
 * The history of a run: the logs of the clients and of the workers, and the charges of the store at the end. All times
 * are in milliseconds since 1970 by the clock of the run, and amounts are in milli-CU.
 */

/** A request of a client. `id` is its X-Request-Id. */
export interface Call {
  readonly id: string;
  /** Name of the replica that was called. Each start of a process has its own name. */
  readonly replica: string;
  readonly keyId: string;
  /** Empty if the call can cost nothing. */
  readonly workspaceId: string;
  readonly start: number;
  readonly end: number;
  /** 0 if no status arrived. */
  readonly status: number;
  readonly isWhole: boolean;
  readonly hasLeft?: boolean;
  /** The price that the answer states. */
  readonly milliCu: number;
  readonly maxMilliCu: number;
  /** Number of charges of a call that is charged. 1 by default; a batch has one per line. */
  readonly lines?: number;
  /** True if the workers log the call. The clients state the id in such a call. */
  readonly isLogged?: boolean;
}

/** A row of `sluice usage export`. */
export interface Charge {
  readonly requestId: string;
  readonly keyId: string;
  readonly workspaceId: string;
  readonly milliCu: number;
}

export interface LimitedScope {
  readonly kind: "key" | "workspace";
  readonly id: string;
  readonly limitMilliCu: number;
  /** False if the limit changes during the run, so that refusals cannot be checked against it. */
  readonly isFixed: boolean;
}

/** Requests with the same Idempotency-Key or confirmation token. `bodies`: those of the complete 2xx answers. */
export interface OnceOnly {
  readonly id: string;
  readonly effects: number;
  readonly bodies: readonly string[];
}

/** `confirmedBy`: the replicas that had confirmed the change at `confirmedAt`. */
export interface Revocation {
  readonly keyId: string;
  readonly committedAt: number;
  readonly confirmedAt: number;
  readonly confirmedBy: readonly string[];
  readonly notConfirmedBy: readonly string[];
}

export interface RateLimit {
  readonly keyId: string;
  readonly perSecond: number;
  readonly burst: number;
  readonly disruptions: readonly Disruption[];
}

/** A time in which Redis could not be reached or lost its data. It may allow `extra` further requests. */
export interface Disruption extends Interval {
  readonly extra: number;
}

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** From `at` on, a replica held this amount of a scope. */
export interface Holding {
  readonly at: number;
  readonly scope: string;
  readonly replica: string;
  readonly heldMilliCu: number;
}

/** A sum in the database that must equal the sum over the charges of a key or workspace. */
export interface KeptSum {
  /** The table, for the message. */
  readonly of: string;
  readonly id: string;
  readonly milliCu: number;
}

export interface History {
  readonly calls: readonly Call[];
  readonly charges: readonly Charge[];
  /** Ids of the logged calls that a worker has received. An id can occur several times, because calls are retried. */
  readonly worked: readonly string[];
  readonly scopes: readonly LimitedScope[];
  readonly onceOnly: readonly OnceOnly[];
  readonly revocations: readonly Revocation[];
  readonly rates: readonly RateLimit[];
  readonly sums: readonly KeptSum[];
  readonly exceeded: readonly Exceeded[];
  readonly faults: readonly Interval[];
  /**
   * True if one gateway decides alone and at once. A refusal is then based on the numbers of its own moment, and a
   * refused call has never held credit.
   */
  readonly isAlone?: boolean;
}

/** A commit after which more was charged and granted than a limit allows. */
export interface Exceeded {
  readonly scope: string;
  readonly chargedMilliCu: number;
  readonly heldMilliCu: number;
  readonly limitMilliCu: number;
}

/** An empty history, for runs that check only some of the rules. */
export const nothing: History = {
  calls: [],
  charges: [],
  worked: [],
  scopes: [],
  onceOnly: [],
  revocations: [],
  rates: [],
  sums: [],
  exceeded: [],
  faults: [],
};
