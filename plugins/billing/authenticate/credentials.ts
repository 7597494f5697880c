/**
 * The credential of a caller: the Authorization header or, because a page cannot send one when it opens a WebSocket, a
 * subprotocol that contains a ticket or a key (confidential-stream.md section 1.1). It is never echoed.
 */
import type { Awaitable, Exchange } from "sluice-gateway/plugin";
import type { Accounts, Caller } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/toolkit";

const prefix = "confidential.auth.";
/** Prefix of every API key. */
const keyPrefix = "gateway_";
/** A ticket can only open a session of this surface. On other surfaces it would be as powerful as its key. */
const streamSurface = "confidential-stream";

export function identify(x: Exchange, accounts: Accounts): Awaitable<Caller> {
  const { headers, address } = x.request;
  const { authorization, origin, "sec-websocket-protocol": offered = "" } = headers;
  if (authorization !== undefined || x.route.surface !== streamSurface) {
    return accounts.identify(authorization, address);
  }
  const shown = credentialOf(offered);
  if (shown === undefined) return accounts.identify(undefined, address);
  if (shown.startsWith(keyPrefix)) return accounts.identify(`Bearer ${shown}`, address);
  return andThen(accounts.tickets.redeem(shown, origin, address), ({ principal, terms }) => {
    if (terms !== undefined) x.set("ticket", terms);
    return principal;
  });
}

/** Returns the decoded text after the prefix. */
function credentialOf(offered: string): string | undefined {
  for (const each of offered.split(",")) {
    const protocol = each.trim();
    if (!protocol.startsWith(prefix)) continue;
    return Buffer.from(protocol.slice(prefix.length), "base64url").toString("utf8");
  }
  return undefined;
}
