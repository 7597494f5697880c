/** The service `metering` and the slot `charge`. Implemented in plugins/billing/metering and plugins/billing/meter. */
import type { Awaitable, LimitReached, Reply } from "sluice-gateway/plugin";
import type { Agent, ApiKey, KeyPrincipal, Workspace } from "./principal.ts";
import type { Pricing } from "./pricing.ts";
import type { UsageReports } from "./usage.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    metering: Metering;
  }
}

/** One charge as it is written to the journal. `costMilliCu` is a non-negative safe integer. */
export interface ChargeLine {
  readonly surface: string;
  readonly method: string;
  readonly model?: string;
  readonly costMilliCu: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** Cached tokens among `inputTokens`. Missing if they are not known, or if all tokens have one price. */
  readonly cachedTokens?: number;
  /** Tokens of reasoning among `outputTokens`. Missing like `cachedTokens`. */
  readonly reasoningTokens?: number;
  readonly estimated?: boolean;
  readonly outcome?: string;
  /** The prices of an inference, so that the charge can be recomputed. */
  readonly pricing?: Pricing;
}

/** The `details` of the 429 (decisions.md section 3). `window` is undefined if the limit is that of the plan. */
export interface CuRefusal {
  readonly kind: "refused";
  readonly window: "24h" | "30d" | undefined;
  readonly usedMilliCu: number;
  readonly limitMilliCu: number;
  /** Time at which the limit has room again, in milliseconds since 1970. Undefined if no credit will be freed. */
  readonly clearsAt?: LimitReached["clearsAt"];
}

/** Credit that is reserved in every scope and not charged yet. Call exactly one of `settle` and `release`. */
export interface Reservation {
  readonly kind: "reserved";
  readonly costMilliCu: number;
  /**
   * Charges the lines and releases the rest. If their sum exceeds `costMilliCu`, it is reduced to `costMilliCu`, from
   * the last line backwards. `more`: further reservations whose credit pays for the same lines; they also end.
   *
   * Resolves when the charge has been written to disk, or at once with `metering.durability: async`. Rejects, and
   * charges nothing, if the charge could not be written, or with a RangeError if a line is not valid, for example
   * if its cost is not a whole number of milli-CU. Never throws.
   */
  settle(lines: readonly ChargeLine[], more?: readonly Reservation[]): Promise<void>;
  /** Does nothing after `settle`. */
  release(): void;
}

/** Charges cannot be recorded at the moment, and no request is served unmetered (503). */
export interface MeterUnavailable {
  readonly kind: "unavailable";
  /** The store and its fault, for the operator. */
  readonly reason?: string;
}

export interface ReservedFor {
  readonly requestId: string;
  readonly surface: string;
  /** Path of the route in pipeline.yaml. Written to the journal with the charge. */
  readonly route?: string | undefined;
  /** Written to the journal with the charge. */
  readonly agent?: Agent | undefined;
  /**
   * True if bytes of the answer will be sent before the charge is settled. An intent is written to the journal, so that
   * the reservation is found after a crash.
   */
  readonly streamed?: boolean | undefined;
}

export interface Meter {
  /**
   * Reserves `costMilliCu` in all scopes (24h, 30d and plan), or in none of them. The result is a promise only if the
   * credit must be requested from another host.
   */
  reserve(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ): Awaitable<Reservation | CuRefusal | MeterUnavailable>;
  /** Reserves even if a limit is exceeded: for a meter in shadow mode, and for work that has already been done. */
  reserveWithoutLimit(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ): Reservation | MeterUnavailable;
}

export interface Metering extends Meter {
  /** Returns the remaining purchased credit in milli-CU. */
  purchasedLeft(workspace: Workspace): Awaitable<number>;
  /** Reads every step of both windows, so call it for reports only, not for each request. */
  keyWindows(
    key: Pick<ApiKey, "id" | "cuLimit24hMilli" | "cuLimit30dMilli">,
  ): Awaitable<KeyWindows>;
  workspaceUsage(workspaceId: string): Awaitable<WorkspaceUsage>;
  /**
   * Time for which requests are served while PostgreSQL cannot be reached, in milliseconds. Keys in memory stay valid
   * for the same time. Undefined without `store.postgres`.
   */
  readonly outageMs: number | undefined;
  readonly usage: UsageReports;
}

/** One rolling window of a key. Times are in milliseconds since 1970 and assume that nothing more is charged. */
export interface WindowState {
  readonly usedMilliCu: number;
  /** Undefined if the window has no limit. */
  readonly limitMilliCu: number | undefined;
  /** Time at which the oldest charges leave the window. Undefined if it is empty. */
  readonly freesAt: number | undefined;
  /** Time at which there is room for the smallest charge again. Undefined if there is room now. */
  readonly roomAt: number | undefined;
  /** Undefined if the window is empty now. */
  readonly emptyAt: number | undefined;
}

export interface KeyWindows {
  readonly day: WindowState;
  readonly month: WindowState;
  /** Credit that is reserved and not settled. It counts in both windows. */
  readonly openMilliCu: number;
}

/** Credit that a workspace has drawn in the current period. */
export interface WorkspaceUsage {
  /** Milliseconds since 1970. */
  readonly periodStart: number;
  readonly includedMilliCu: number;
  readonly purchasedMilliCu: number;
  readonly overageMilliCu: number;
  readonly openMilliCu: number;
}

/** The account of one call in an exchange with several calls. Call exactly one of `settle` and `release`, once. */
export interface ChargePart {
  readonly reservedMilliCu: number;
  /** Charges the lines and releases the rest. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): void;
  /** Call it after `settle`. Resolves when the charge is on disk, or to a Reply (503) if it cannot be written. */
  written(): Promise<Reply | undefined>;
  release(): void;
}

export interface PartOptions {
  readonly streamed?: boolean;
  /**
   * True if the call and its part continue after the exchange has ended. The plugin that opened the part must end it.
   */
  readonly detached?: boolean;
  /**
   * The principal who pays, as currently known, for an exchange that lasts longer than the state of its key at arrival.
   * Default: the principal of the exchange.
   */
  readonly principal?: KeyPrincipal;
}

/** The account of an exchange. */
export interface Charge {
  /**
   * Reserves credit, in addition to an earlier reservation. Always use `await`: with PostgreSQL, the result is now and
   * then a promise. A resulting Reply is the refusal to send (429 with details, or 503). If the exchange ends while the
   * credit is being requested, the credit is released, and the result is 503.
   */
  reserve(
    costMilliCu: number,
    options?: { readonly streamed?: boolean },
  ): Awaitable<Reply | undefined>;
  /** Call it at most once. The last byte of the answer is sent after the charge has been written to disk. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): void;
  /**
   * Reserves credit for one of several calls of the exchange. Each part is settled or released separately. An exchange
   * that opens parts must not call `reserve` and `settle`. If the exchange ends while the credit is being requested,
   * the result is `unavailable`, unless the part is detached.
   */
  open(
    costMilliCu: number,
    options?: PartOptions,
  ): Awaitable<ChargePart | CuRefusal | MeterUnavailable>;
  /** Sum of the settled lines and parts. Undefined before the first line is settled. */
  readonly usedMilliCu: number | undefined;
}

declare module "sluice-gateway/plugin" {
  interface Slots {
    charge: Charge;
  }
  interface Facts {
    /** Missing if nothing was charged. */
    costMilliCu: number;
  }
}
