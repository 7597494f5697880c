/**
 * The credential of a caller: the Authorization header or, because a page cannot send one when it opens a WebSocket, a
 * subprotocol that contains a ticket (confidential-stream.md section 1.1, decisions.md section 14). It is never echoed.
 */
import type { Awaitable, Exchange } from "sluice-gateway/plugin";
import type { Accounts, Caller } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";

interface SubprotocolForm {
  /** The rest of the subprotocol is the credential in base64url. */
  readonly prefix: string;
  readonly allowsKeys: boolean;
}

/**
 * The surfaces whose connections can be opened with a ticket, by name. On other surfaces a ticket would be as powerful
 * as its key.
 */
const forms: ReadonlyMap<string, SubprotocolForm> = new Map([
  ["confidential-stream", { prefix: "confidential.auth.", allowsKeys: true }],
  ["ledger-ws", { prefix: "ledger.auth.", allowsKeys: false }],
]);
const keyPrefix = "gateway_";

/** Headers of other APIs in which a key can be sent. The log redacts them (src/base/redact.ts). */
export const keyHeaders = ["x-api-key"] as const;

export const ambiguous = Symbol("different credentials");

/** Returns the credential in the form of Authorization. `names`: the other headers in which a key can be sent. */
export function credentialIn(
  { request: { headers } }: Exchange,
  names: readonly (typeof keyHeaders)[number][],
): string | typeof ambiguous | undefined {
  let found = headers.authorization;
  if (names.length === 0) return found;
  for (const key of names.flatMap((name) => headers[name] ?? [])) {
    const credential = `Bearer ${key}`;
    if (found !== undefined && found !== credential) return ambiguous;
    found = credential;
  }
  return found;
}

export function identify(
  x: Exchange,
  accounts: Accounts,
  authorization: string | undefined,
): Awaitable<Caller> {
  const { headers, address } = x.request;
  const { origin, "sec-websocket-protocol": offered = "" } = headers;
  const form = forms.get(x.route.surface);
  if (authorization !== undefined || form === undefined) {
    return accounts.identify(authorization, address);
  }
  const shown = credentialOf(offered, form.prefix);
  if (shown === undefined) return accounts.identify(undefined, address);
  if (form.allowsKeys && shown.startsWith(keyPrefix)) {
    return accounts.identify(`Bearer ${shown}`, address);
  }
  return andThen(accounts.tickets.redeem(shown, origin, address), ({ principal, terms }) => {
    if (terms !== undefined) x.set("ticket", terms);
    return principal;
  });
}

function credentialOf(offered: string, prefix: string): string | undefined {
  for (const each of offered.split(",")) {
    const protocol = each.trim();
    if (!protocol.startsWith(prefix)) continue;
    return Buffer.from(protocol.slice(prefix.length), "base64url").toString("utf8");
  }
  return undefined;
}
