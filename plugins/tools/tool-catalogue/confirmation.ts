/**
 * Confirmation of write tools (decisions.md section 6): the first call returns a token, and a second call with the
 * token and the same arguments runs the tool. A token is sealed, bound to key, tool and canonical arguments, valid for
 * 5 minutes, and can be used once. This holds across replicas and restarts, because used tokens are recorded in the
 * store. A token is also bound to the facts about the tool that the caller has seen: its entry in the catalogue and the
 * price of the call. If either has changed, the caller must see a new preview.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Awaitable, Claims, JsonSchema, Seal } from "sluice-gateway/plugin";
import { toolFailure, type CatalogueEntry, type ToolFailure } from "sluice-gateway/services";
import { StoreError } from "sluice-gateway/internal/store";
import { isObject, stableJson } from "sluice-gateway/internal/toolkit";

const purpose = "confirmation";
const lifetimeMs = 5 * 60_000;

/** The member of a write tool's input that contains the token, on every transport. */
const tokenMember = "confirmation_token";

const expired = toolFailure(
  "GATEWAY_CONFIRMATION_EXPIRED",
  "the confirmation token has expired, was used, or was made for another call",
);
const changed = toolFailure(
  "GATEWAY_CONFIRMATION_EXPIRED",
  "the tool or the price of the call has changed since the confirmation token was made; call again without a token",
);

const unavailable = toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "temporarily unavailable");

/** A token confirms one key, one tool, these arguments (in any JSON notation) and one price. */
export interface ConfirmedCall {
  readonly keyId: string;
  readonly entry: CatalogueEntry;
  readonly input: unknown;
  readonly costMilliCu: number;
}

/** `claim` returns the reason why the call must not run, or undefined if it may. */
export interface Confirmed {
  readonly ok: true;
  claim(): Awaitable<ToolFailure | undefined>;
}

export interface Confirmations {
  ask(call: ConfirmedCall, summary: object): ToolFailure;
  /**
   * Returns GATEWAY_CONFIRMATION_EXPIRED if the token is not valid for this call. `claim` uses the token, and fails if
   * it was used before or the store cannot be reached.
   */
  redeem(token: string, call: ConfirmedCall): Confirmed | ToolFailure;
}

interface Ticket {
  readonly id: string;
  readonly binding: string;
  readonly terms: string;
}

export function createConfirmations(parts: {
  readonly seal: Seal;
  readonly claims: Pick<Claims, "claim" | "now">;
}): Confirmations {
  const { seal, claims } = parts;
  return {
    ask(call, summary) {
      const expiresAt = claims.now() + lifetimeMs;
      const ticket: Ticket = {
        id: randomUUID(),
        binding: bindingOf(call),
        terms: termsOf(call),
      };
      return toolFailure("GATEWAY_CONFIRMATION_REQUIRED", "confirmation required", {
        confirmation_token: seal.seal(purpose, ticket, expiresAt),
        expires_at: new Date(expiresAt).toISOString(),
        summary,
      });
    },
    redeem(token, call) {
      const opened = seal.open(purpose, token);
      if (opened === undefined || opened.expiresAt <= claims.now()) return expired;
      const { value, expiresAt } = opened;
      if (!isTicket(value) || value.binding !== bindingOf(call)) return expired;
      if (value.terms !== termsOf(call)) return changed;
      return {
        ok: true,
        claim: () => claimOnce(() => claims.claim(`${purpose} ${value.id}`, expiresAt)),
      };
    },
  };
}

async function claimOnce(claim: () => Promise<boolean>): Promise<ToolFailure | undefined> {
  try {
    return (await claim()) ? undefined : expired;
  } catch (error) {
    if (error instanceof StoreError) return unavailable;
    throw error;
  }
}

export function withToken(schema: JsonSchema): JsonSchema {
  const properties = {
    // The schema has the type object; ajv checks its properties.
    ...(schema["properties"] as object | undefined),
    [tokenMember]: {
      type: "string",
      description: "The token that the first, unconfirmed call answered with; valid for 5 minutes.",
    },
  };
  return { ...schema, properties };
}

/** `given`: valid input. */
export function takeToken(given: unknown): {
  readonly input: object;
  readonly token: string | undefined;
} {
  // The input matches the schema of `withToken`: an object whose token, if present, is a string.
  const { [tokenMember]: token, ...input } = given as Record<string, unknown>;
  return { input, token: token as string | undefined };
}

function bindingOf({ keyId, entry, input }: ConfirmedCall): string {
  return digestOf([keyId, entry.name, input]);
}

function termsOf({ entry, costMilliCu }: ConfirmedCall): string {
  return digestOf([entry, costMilliCu]);
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(stableJson(value)).digest("base64url");
}

function isTicket(value: unknown): value is Ticket {
  return isObject(value) && typeof value["id"] === "string" && "binding" in value;
}
