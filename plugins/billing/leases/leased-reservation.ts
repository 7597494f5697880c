import type {
  ChargeDetails,
  LeasedCharge,
  LimitReached,
  Limits,
  WorkspaceLimits,
} from "./ledger.ts";
import type { ScopeLease } from "./scope-lease.ts";

/** The payer, and the limits that apply. */
export interface Account {
  readonly keyId: string;
  /** Undefined if neither window of the key has a limit. Such a key needs no lease. */
  readonly keyLimits: Limits | undefined;
  readonly workspaceId: string;
  readonly workspaceLimits: WorkspaceLimits;
  /** The leases that the last reservation has used. Empty before the first one. */
  scopes: readonly Lease[];
}

/**
 * | state       | meaning                                                                                        |
 * | ----------- | ---------------------------------------------------------------------------------------------- |
 * | waiting     | a lease is being asked for                                                                     |
 * | open        | the credit is reserved                                                                         |
 * | settling    | charged; nothing has confirmed it                                                              |
 * | posted      | charged, and confirmed                                                                         |
 * | refused     | a limit is reached: `reached`                                                                  |
 * | unavailable | the ledger, or another replica that holds credit, did not answer                               |
 * | released    | ended without a charge                                                                         |
 * | lost        | certainly not charged: the replica was fenced and the credit could not be reserved again, or the |
 * |             | ledger could not be reached before the charge was sent                                          |
 */
export type LeasedState =
  | "waiting"
  | "open"
  | "settling"
  | "posted"
  | "refused"
  | "unavailable"
  | "released"
  | "lost";

export type Lease = ScopeLease<LeasedReservation>;

/** Only LeasedCredit and its owner write to it. */
export interface LeasedReservation {
  readonly account: Account;
  /** The scopes that have a limit, the workspace first, because it takes longest to clear. */
  readonly scopes: readonly Lease[];
  costMilliCu: number;
  /** True if it may exceed every limit, for a meter in shadow mode. */
  readonly isForced: boolean;
  state: LeasedState;
  /** Number of the answer that is being sent in the journal. 0 if there is none. */
  stream: number;
  /**
   * True if each scope either holds its credit or has it in `waiting`. While it waits, it keeps the credit that it has,
   * so that two scopes cannot get stuck in turns.
   */
  isInScopes: boolean;
  waitsSince: number;
  place: number;
  /** True if it was open or settled before the replica was fenced. */
  isRecovering: boolean;
  lines: readonly ChargeDetails[] | undefined;
  charges: readonly LeasedCharge[];
  reached: LimitReached | undefined;
  /** Called when a reservation that waited or was settled has become open, posted, refused, unavailable or lost. */
  onChange: (() => void) | undefined;
}
