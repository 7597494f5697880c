/** Reserves and charges credit for a connection, from the current account of its caller. */
import type { Charge, ChargeLine } from "sluice-gateway/services";
import type { Caller } from "./caller.ts";
import { chargeRefusal, unauthorized, unavailable, type CallRefusal } from "./rpc-error.ts";

/** Reserved credit. Call exactly one of its methods. */
export interface Payment {
  /** Resolves to true when the charge is on disk, or to false if it cannot be written. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): Promise<boolean>;
  release(): void;
}

const free: Payment = { settle: () => Promise.resolve(true), release() {} };

export class Payer {
  readonly #caller: Caller;
  readonly #charge: Charge;
  readonly #onRefused: () => void;

  /** `onRefused`: called when the key is no longer valid. */
  constructor(caller: Caller, charge: Charge, onRefused: () => void) {
    this.#caller = caller;
    this.#charge = charge;
    this.#onRefused = onRefused;
  }

  async reserve(costMilliCu: number): Promise<Payment | CallRefusal> {
    const principal = await this.#caller.current();
    if (principal === "unavailable") return unavailable;
    if (principal === "refused") {
      this.#onRefused();
      return unauthorized;
    }
    if (costMilliCu === 0) return free;
    const part = await this.#charge.open(costMilliCu, { detached: true, principal });
    if ("kind" in part) return chargeRefusal(part);
    return {
      async settle(lines) {
        part.settle(lines);
        return (await part.written()) === undefined;
      },
      release: () => part.release(),
    };
  }
}
