/**
 * The contract between a replica and the ledger, which is the authority for the credit of all replicas.
 *
 * The ledger grants credit to replicas (`lease`). A replica reserves and charges within the credit that it holds, in
 * memory, and reports its charges in numbered batches (`post`). At every grant, the posted charges of a scope plus the
 * credit that all replicas hold and have not posted are at most the limit. So no order of messages can exceed a limit.
 *
 * A scope is leased or central. While it is leased, replicas hold credit in reserve (slack). It is central while a
 * reservation waits for credit that others hold, or while little is left: replicas then hold only what they have
 * reserved, and each reservation is granted by itself. A need that does not fit increases the epoch of the scope. It is
 * refused when every other replica that holds credit has answered this epoch, which means that it has returned its
 * slack.
 *
 * Every message may be lost, delayed, doubled or overtaken by a later one. Messages therefore state totals and numbers,
 * never differences: a lease states everything that the replica keeps, and a batch has the numbers of its charges. All
 * amounts are whole milli-CU and at most 2^53 - 1.
 */
import type { Awaitable } from "sluice-gateway/plugin";
import type { ChargeLine, ReservedFor } from "sluice-gateway/services";

export const unlimitedMilliCu = Number.MAX_SAFE_INTEGER;

/** The limits of a key. The limit of an unlimited window is `unlimitedMilliCu`. */
export interface KeyLimits {
  readonly kind: "key";
  readonly dayMilliCu: number;
  readonly monthMilliCu: number;
}

export interface WorkspaceLimits {
  readonly kind: "workspace";
  /** Per calendar month. */
  readonly includedMilliCu: number;
  /** Sum of all purchases. */
  readonly purchasedMilliCu: number;
  /** Per calendar month. 0 if the plan has no overage, `unlimitedMilliCu` if overage has no limit. */
  readonly overageMilliCu: number;
}

/** The limits of a scope of credit: a key (both windows together) or a workspace. */
export type Limits = KeyLimits | WorkspaceLimits;

/** `settled`: an answer waits until its charge is posted. `async`: it waits for nothing. */
export type ReplicaMode = "settled" | "async";

/**
 * The state of a replica.
 *
 * | state   | meaning                                                                                              |
 * | ------- | ---------------------------------------------------------------------------------------------------- |
 * | live    | it may reserve and post                                                                              |
 * | fenced  | it sent nothing for 10 s, or an operator ended it. It holds nothing, and nothing from it is accepted |
 * | gone    | it has left. It holds nothing, and nothing that it sends is accepted                                 |
 * | unknown | the ledger has no such replica, because a backup was restored                                        |
 */
export type ReplicaState = "live" | "fenced" | "gone" | "unknown";

/** The members that all replies have. Times are in milliseconds since 1970 of the ledger's clock. */
export interface ReplicaStatus {
  readonly state: ReplicaState;
  /** Number of the last charge that was accepted from the replica. */
  readonly posted: number;
  readonly leaseNo: number;
  readonly time: number;
}

export interface Registered extends ReplicaStatus {
  /** The number that all further messages of this replica state. */
  readonly replica: number;
}

export interface FeedReply extends ReplicaStatus {
  /** Scopes in which the replica holds credit and has not answered the current epoch yet. */
  readonly epochs: readonly { readonly scope: string; readonly epoch: number }[];
}

/** States what a replica keeps in one scope, and asks for more. */
export interface Want {
  readonly scope: string;
  readonly limits: Limits;
  /**
   * True if the replica counts this scope from zero: it is used for the first time, or again after a while. None of its
   * charges are in flight then. The ledger forgets the earlier totals, and the whole lease if nothing is granted.
   */
  readonly isNew: boolean;
  /**
   * All credit that the replica was granted since it started to count this scope, without the credit that it returns
   * with this message.
   */
  readonly grantedMilliCu: number;
  /** The part of `grantedMilliCu` that is neither charged nor reserved. */
  readonly slackMilliCu: number;
  /** Costs of the waiting reservations, oldest first. Each is granted completely or not at all. */
  readonly needsMilliCu: readonly number[];
  /** Further credit that the replica would like to hold as slack. */
  readonly extraMilliCu: number;
  /** The newest epoch that the replica has seen. This message answers it. */
  readonly epoch: number;
  /** True if a waiting reservation is stated for the first time. The epoch is then increased if it does not fit. */
  readonly hasNewNeeds: boolean;
}

/** The limit that a need exceeds, for the 429. `window` is undefined for a workspace. */
export interface LimitReached {
  readonly window: "24h" | "30d" | undefined;
  /** Sum of the charges and open reservations of all replicas. */
  readonly usedMilliCu: number;
  readonly limitMilliCu: number;
  /**
   * Time by the ledger's clock at which there is room again if nothing else is charged. Undefined if nothing will be
   * freed.
   */
  readonly clearsAt?: number | undefined;
}

export type ScopeMode = "leased" | "central";

export interface Granted {
  readonly scope: string;
  readonly grantedMilliCu: number;
  readonly epoch: number;
  /** Every other live replica that holds credit of this scope has answered this epoch. */
  readonly answered: number;
  readonly mode: ScopeMode;
  /** Undefined if all needs were granted. */
  readonly reached: LimitReached | undefined;
}

export interface LeaseRequest {
  readonly replica: number;
  /** Greater than the number of every earlier lease request of the replica. Other requests are ignored. */
  readonly leaseNo: number;
  readonly wants: readonly Want[];
}

export interface LeaseReply extends ReplicaStatus {
  /** Undefined if the request was ignored: a later one was accepted before, or the replica is fenced. */
  readonly granted: readonly Granted[] | undefined;
}

/** One charge. `keyId` and `workspaceId` name its scopes. */
export interface LeasedCharge {
  readonly keyId: string;
  readonly workspaceId: string;
  /** Time of the charge in milliseconds since 1970. Its month is the month of the bill. */
  readonly time: number;
  readonly costMilliCu: number;
  /** The part that the lease of the workspace covers. The rest had no reservation. */
  readonly takenMilliCu: number;
  readonly keyTakenMilliCu: number;
  readonly details: ChargeDetails;
}

/** The purpose of a charge. It does not affect any limit. */
export interface ChargeDetails {
  readonly about: Pick<ReservedFor, "requestId" | "agent" | "route">;
  readonly line: ChargeLine;
}

export interface PostBatch {
  /** Numbers of the first and the last charge. The charges of a replica are numbered from 1 without gaps. */
  readonly first: number;
  readonly last: number;
  readonly charges: readonly LeasedCharge[];
}

export interface PostRequest extends PostBatch {
  readonly replica: number;
}

export interface PostReply extends ReplicaStatus {
  /** True if the batch was not accepted and never will be. Its numbers are free again. */
  readonly isLost?: boolean;
}

export interface CreditLedger {
  register(name: string, mode: ReplicaMode): Awaitable<Registered>;
  /** Reports that the replica is running, and returns the epochs that it must answer. */
  feed(replica: number): Awaitable<FeedReply>;
  lease(request: LeaseRequest): Awaitable<LeaseReply>;
  /** Accepts all charges of a batch, or none. The batch was accepted if the reply's `posted` reaches its end. */
  post(request: PostRequest): Awaitable<PostReply>;
  /** Fences the replicas that have been silent for too long, and returns their numbers. `replica`: the caller. */
  fence(replica: number): Awaitable<readonly number[]>;
  /** Ends a replica that has posted all its charges. The credit that it holds is free again. */
  leave(replica: number): Awaitable<ReplicaStatus>;
}
