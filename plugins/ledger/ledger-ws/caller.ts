/** The caller of a connection: the key that `authenticate` has found, or for which a ticket was made. */
import { refuse, type Awaitable, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { Accounts, KeyPrincipal } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";

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
