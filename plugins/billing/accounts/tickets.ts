/** Tickets replace API keys in browsers (confidential-stream.md section 1.1). They are sealed and can be used once. */
import { randomUUID } from "node:crypto";
import type { Claims, Log, Seal } from "sluice-gateway/plugin";
import type { Callers, RedeemedTicket, Tickets, TicketTerms } from "sluice-gateway/services";
import { unauthorized } from "./principal.ts";

interface TicketDeps {
  readonly seal: Seal;
  readonly claims: Pick<Claims, "claim" | "now">;
  readonly accounts: Callers;
  readonly log: Log;
}

/** The sealed value. JSON omits members that are undefined. */
interface SealedTicket {
  readonly id: string;
  readonly key: string;
  readonly model?: string;
  readonly origin?: string;
}

const purpose = "ticket";
const validMs = 60_000;

const refused: RedeemedTicket = { principal: unauthorized, terms: undefined };
const unavailable: RedeemedTicket = { principal: { kind: "unavailable" }, terms: undefined };

export function createTickets({ seal, claims, accounts, log }: TicketDeps): Tickets {
  return {
    issue({ keyId, model, origin }) {
      const expiresAt = claims.now() + validMs;
      const id = randomUUID();
      return {
        ticket: seal.seal(purpose, { id, key: keyId, model, origin }, expiresAt),
        expiresAt,
      };
    },
    async redeem(ticket, origin, address) {
      const opened = seal.open(purpose, ticket);
      if (opened === undefined || opened.expiresAt <= claims.now()) return refused;
      // Only `issue` seals tickets.
      const { id, key, model, origin: bound } = opened.value as SealedTicket;
      if (bound !== origin) return refused;
      const terms: TicketTerms = { keyId: key, model, origin };
      const principal = await accounts.identifyKey(key, address);
      if (principal.kind !== "key") return { principal, terms: undefined };
      try {
        const isFirst = await claims.claim(`ticket ${id}`, opened.expiresAt);
        return isFirst ? { principal, terms } : refused;
      } catch (error) {
        log.error({ err: error }, "a ticket cannot be redeemed");
        return unavailable;
      }
    },
  };
}
