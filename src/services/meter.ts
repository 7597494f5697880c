/** The service `host.meter` and the account of an exchange: implemented in src/metering and by the step `meter`. */
import type { Reply } from "../plugin.ts";
import type { Agent, KeyPrincipal } from "./accounts.ts";
import type { Pricing } from "./networks.ts";

/** One charge as the journal keeps it. `costMilli` is a non-negative safe integer. */
export interface ChargeLine {
  readonly surface: string;
  readonly method: string;
  readonly model?: string;
  readonly costMilli: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly estimated?: boolean;
  readonly outcome?: string;
  /** What an inference was reckoned with, for whoever recomputes the charge. */
  readonly pricing?: Pricing;
}

/** Why a reservation did not fit; `details` of the 429 (decisions.md section 3). */
export interface CuRefusal {
  readonly kind: "refused";
  readonly window: "24h" | "30d" | undefined;
  readonly usedCuMilli: number;
  readonly limitCuMilli: number;
}

/** Credit taken from every scope at once and not yet charged. Exactly one of `settle` and `release` ends it. */
export interface Reservation {
  readonly kind: "reserved";
  readonly costMilli: number;
  /**
   * Charges the lines and frees the rest. A sum above `costMilli` is cut to it, from the last line backwards. `more`:
   * further reservations whose credit pays for the same lines; they end as well. Resolves when the charge is on disk (at
   * once with `metering.durability: async`). Rejects, and charges nothing, when it could not be written, and with a
   * RangeError for a line that is not a whole number of milli-CU. Never throws.
   */
  settle(lines: readonly ChargeLine[], more?: readonly Reservation[]): Promise<void>;
  /** Frees it without a charge. Does nothing after `settle`. */
  release(): void;
}

export interface Meter {
  /**
   * Takes `costMilli` from 24h, 30d and plan at once, or from none.
   * `streamed`: bytes will leave before the charge settles, so an intent goes to the journal that tells of a crash.
   * `force`: takes it whatever the limits say (a meter in shadow mode counts, and refuses nothing).
   * While the journal cannot write, answers `{ kind: "unavailable" }` (503): nothing is served unmetered.
   */
  reserve(
    principal: KeyPrincipal,
    costMilli: number,
    about: {
      readonly requestId: string;
      readonly surface: string;
      /** For the record of a charge. */
      readonly agent?: Agent | undefined;
      readonly streamed?: boolean | undefined;
      readonly force?: boolean | undefined;
    },
  ): Reservation | CuRefusal | { readonly kind: "unavailable" };
}

/** One call's share of an exchange's account, where an exchange holds several calls. End it exactly once. */
export interface ChargePart {
  readonly reservedMilli: number;
  /** Charges the lines and gives back the rest. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): void;
  /** After `settle`: resolves when the charge is on disk; to a Reply (503) when it cannot be. */
  written(): Promise<Reply | undefined>;
  release(): void;
}

export interface PartOptions {
  /** Bytes will leave before it settles. */
  readonly streamed?: boolean;
  /** Its call goes on when the exchange ends, and so does it: whoever opened it ends it. */
  readonly detached?: boolean;
  /**
   * Who pays, as known now, where the exchange outlives what was known at its head; absent: the exchange's principal.
   */
  readonly principal?: KeyPrincipal;
}

/** The slot `charge` of the `meter` step: the exchange's own account. */
export interface Charge {
  /** Reserves; a Reply is the refusal to send (429 with details, 503). Adds to an earlier reservation. */
  reserve(costMilli: number, options?: { readonly streamed?: boolean }): Reply | undefined;
  /** Says what is really owed. Called at most once. The core waits for the disk before the last byte leaves. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): void;
  /**
   * Reserves for one of several calls of the exchange, which settles or releases on its own. Beside parts, `reserve`
   * and `settle` are not used.
   */
  open(
    costMilli: number,
    options?: PartOptions,
  ): ChargePart | CuRefusal | { readonly kind: "unavailable" };
  /** Sum of the settled lines, of parts too; undefined before anything was settled. */
  readonly usedMilli: number | undefined;
}
