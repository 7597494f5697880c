/**
 * The caller of a connection: the key that `authenticate` has found, or for which a ticket was made. Credit is reserved
 * and charged from its current account.
 */
import { refuse, type Awaitable, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { Accounts, Charge, ChargeLine, KeyPrincipal } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";
import { chargeRefusal, unauthorized, unavailable, type CallRefusal } from "./call-replies.ts";

export interface Caller {
  readonly keyId: string;
  readonly workspaceId: string;
  /**
   * Returns the caller as the accounts know it now. `refused`: the key was revoked, has expired or has lost a capability.
   * `unavailable`: the accounts cannot be asked.
   */
  current(): Awaitable<KeyPrincipal | "refused" | "unavailable">;
}

export async function mayWrite(caller: Caller): Promise<boolean> {
  const now = await caller.current();
  return typeof now === "object" && now.key.capabilities.has("ledger:write");
}

export function callerOf(x: Exchange, accounts: Accounts): Caller | Reply {
  const principal = x.get("principal");
  if (principal.kind === "anonymous") return refuse("GATEWAY_UNAUTHORIZED");
  if (x.peek("ticket")?.model !== undefined) return ticketOfModel;
  const { id: keyId, capabilities } = principal.key;
  if (!capabilities.has("ledger:read")) return refuse("GATEWAY_PERMISSION_DENIED");
  // The address is read now, because it is lost when the socket closes.
  const { address } = x.request;
  return {
    keyId,
    workspaceId: principal.workspace.id,
    current: () =>
      andThen(accounts.identifyAgain(principal, address), (now) => {
        if (now.kind === "unavailable") return "unavailable";
        if (now.kind === "anonymous" || !now.key.capabilities.has("ledger:read")) return "refused";
        return now;
      }),
  };
}

const ticketOfModel = refuse("GATEWAY_PERMISSION_DENIED", {
  message: "the ticket is valid for one model only, not for the node",
});

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
