/**
 * The caller of a connection: the key that `authenticate` has found, or the key behind a ticket in the subprotocol, for
 * pages, which cannot send a header when they open a WebSocket.
 */
import { refuse, type Awaitable, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { Accounts, Anonymous, KeyPrincipal } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/toolkit";

/** The subprotocol that is selected if a client offers any, because browsers require one then. */
export const subprotocol = "ledger.v1";
/** A subprotocol with this prefix contains a ticket in base64url. It is never selected, so it is not sent back. */
export const ticketPrefix = "ledger.auth.";

export interface Caller {
  readonly keyId: string;
  /**
   * Returns the caller as the accounts know it now. `refused`: the key was revoked, has expired or has lost a capability.
   * `unavailable`: the accounts cannot be asked.
   */
  current(): Awaitable<KeyPrincipal | "refused" | "unavailable">;
}

/** Returns the caller, or the reply that refuses the upgrade. */
export function identifyCaller(x: Exchange, accounts: Accounts): Awaitable<Caller | Reply> {
  const principal = x.get("principal");
  if (principal.kind === "key") return callerOf(principal, x, accounts);
  const ticket = ticketOf(x);
  if (ticket === undefined) return unauthorized(principal.reason);
  const { origin } = x.request.headers;
  const redeeming = accounts.tickets.redeem(ticket, origin, x.request.address);
  return andThen(redeeming, ({ principal: redeemed, terms }) => {
    if (redeemed.kind === "unavailable") return refuse("GATEWAY_SERVICE_UNAVAILABLE");
    if (redeemed.kind === "anonymous") return unauthorized(redeemed.reason);
    if (terms?.model !== undefined) return otherTicket;
    return callerOf(redeemed, x, accounts);
  });
}

const otherTicket = refuse("GATEWAY_PERMISSION_DENIED", {
  message: "the ticket is valid for one model only, not for the node",
});

function callerOf(opened: KeyPrincipal, x: Exchange, accounts: Accounts): Caller | Reply {
  const { id: keyId, capabilities } = opened.key;
  if (!capabilities.has("ledger:read")) return refuse("GATEWAY_PERMISSION_DENIED");
  // The address is read now, because it is lost when the socket closes.
  const { address } = x.request;
  return {
    keyId,
    current: () =>
      andThen(accounts.identifyKey(keyId, address), (now) => {
        if (now.kind === "unavailable") return "unavailable";
        if (now.kind === "anonymous" || !now.key.capabilities.has("ledger:read")) return "refused";
        return now;
      }),
  };
}

/** Returns the ticket in the subprotocols that the client offers. An `Authorization` header has precedence. */
function ticketOf(x: Exchange): string | undefined {
  const { authorization, "sec-websocket-protocol": offered = "" } = x.request.headers;
  if (authorization !== undefined) return undefined;
  for (const each of offered.split(",")) {
    const name = each.trim();
    if (!name.startsWith(ticketPrefix)) continue;
    return Buffer.from(name.slice(ticketPrefix.length), "base64url").toString();
  }
  return undefined;
}

/** Returns the reply that the step `authorize` sends. The step itself does not know tickets. */
function unauthorized(reason: Anonymous["reason"]): Reply {
  if (reason === "api key not allowed from this address") {
    return refuse("GATEWAY_PERMISSION_DENIED", { message: reason });
  }
  return refuse("GATEWAY_UNAUTHORIZED", {
    message: reason,
    headers: ["www-authenticate", 'Bearer realm="gateway"'],
  });
}
