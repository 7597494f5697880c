/** `tickets` of the service `accounts`, for clients that cannot send an `Authorization` header. */
import type { Caller } from "./principal.ts";

export interface TicketTerms {
  readonly keyId: string;
  /** The only model that may be used. Undefined if every model may be used. */
  readonly model: string | undefined;
  /** The required `Origin`. Undefined if only clients that send no `Origin` may use the ticket. */
  readonly origin: string | undefined;
}

export interface RedeemedTicket {
  readonly principal: Caller;
  readonly terms: TicketTerms | undefined;
}

export interface Tickets {
  /** Issues a ticket that is valid once, for 60 s. `expiresAt`: milliseconds since 1970. */
  issue(terms: TicketTerms): { readonly ticket: string; readonly expiresAt: number };
  /**
   * Redeems a ticket. An invalid ticket yields an anonymous principal and no `terms`; a ticket is invalid once it has
   * been redeemed. If a store cannot be used, the principal is `unavailable`, and the ticket may be used up.
   */
  redeem(ticket: string, origin: string | undefined, address: string): Promise<RedeemedTicket>;
}

declare module "sluice-gateway/plugin" {
  interface Slots {
    /** Missing if the client used no ticket. Set by `authenticate`. */
    ticket: TicketTerms;
  }
}
