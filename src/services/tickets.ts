/** The service `host.tickets`, for clients that cannot send an Authorization header: implemented in src/accounts. */
import type { Principal } from "./accounts.ts";

/** What a ticket stands for. */
export interface TicketTerms {
  readonly keyId: string;
  /** The one model that may be asked; undefined: any. */
  readonly model: string | undefined;
  /** The Origin that it must come from; undefined: only from clients that send none. */
  readonly origin: string | undefined;
}

export interface Tickets {
  /** Good once, for 60 s. `expiresAt`: milliseconds since 1970. */
  issue(terms: TicketTerms): { readonly ticket: string; readonly expiresAt: number };
  /** Who comes with it, once; anonymous for whatever is wrong with it. `terms` only where it was good. */
  redeem(
    ticket: string,
    origin: string | undefined,
    address: string,
  ): { readonly principal: Principal; readonly terms: TicketTerms | undefined };
}
