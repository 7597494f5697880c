/** The service `accounts`: workspaces, API keys and callers. Implemented in plugins/billing/accounts. */
import type { Awaitable, Exchange } from "sluice-gateway/plugin";
import type { AccountsAdmin } from "./accounts-admin.ts";
import type { Idempotency } from "./idempotency.ts";
import type { ModelOverride } from "./inference.ts";
import type { Caller, ChangedBy, KeyPrincipal, Principal, ReceivedClaims } from "./principal.ts";
import type { Tickets } from "./tickets.ts";
import type { Workspaces } from "./workspaces.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    accounts: Accounts;
  }
}

export interface Callers {
  /**
   * Returns the caller who sent this `Authorization` header from this address. Never fails. The result is a promise
   * only if a store on another host must be queried. Changes of keys and workspaces are seen within one second. Without
   * an address, a key that is bound to addresses is refused.
   */
  identify(authorization: string | undefined, address?: string): Awaitable<Caller>;
  /** Returns the caller for the id of a key that was identified before. */
  identifyKey(keyId: string, address: string): Awaitable<Caller>;
  /**
   * Returns the caller with this principal of an earlier request as the accounts know it now, for connections that stay
   * open. The caller is anonymous if its key was revoked or its claims have expired. Never fails.
   */
  identifyAgain(principal: KeyPrincipal, address: string): Awaitable<Caller>;
  /**
   * Returns the principal of a caller that a plugin has authenticated by itself. The caller is anonymous
   * (`unauthorized`) if no plan is known, `expiresAt` has passed, the id begins with `key_`, or a value does not have
   * the type and range that `CallerClaims` describes. Never fails. The result is a promise only if the workspace must
   * be read from a store on another host.
   *
   * Changes of the workspace are seen within one second. Pass the same object for the same credential: its principal
   * then remains the same object until something changes. While the store cannot be read, callers of workspaces that
   * were read before remain known, and others are `unavailable`.
   */
  identifyClaims(claims: ReceivedClaims): Awaitable<Caller>;
}

export interface Accounts extends Callers {
  /** The function `setPrincipal` of `sluice-gateway/services`, for plugins that import only `sluice-gateway/plugin`. */
  setPrincipal(x: Exchange, principal: Principal): void;
  readonly workspaces: Workspaces;
  readonly idempotency: Idempotency;
  readonly tickets: Tickets;
  readonly admin: AccountsAdmin;
  /** The map stays the same object until an override changes. */
  overrides(network: string): ReadonlyMap<string, ModelOverride>;
  /**
   * Replaces all overrides of a network with `models`, which must have distinct ids. Returns false if they could not be
   * written; nothing has changed then. The change is durable when the method has returned, or the surrounding
   * transaction has committed.
   */
  replaceOverrides(
    network: string,
    models: readonly ModelOverride[],
    by: ChangedBy,
  ): Promise<boolean>;
}
