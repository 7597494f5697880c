/**
 * Confirmation of write tools (decisions.md section 6): the first call gets a token, the second one, with the token and
 * the same arguments, runs. A token is sealed, bound to key, tool and canonical arguments, valid for 5 minutes, and
 * used once: across replicas and restarts, because its claim is kept in the store.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Clock } from "../../../src/services/clock.ts";
import type { JsonSchema } from "../../../src/services/json.ts";
import type { Claims, Seal } from "../../../src/services/store.ts";
import { toolFailure, type ToolFailure } from "../../../src/tool.ts";
import { canonicalJson } from "./canonical-json.ts";

const purpose = "confirmation";
const lifetimeMs = 5 * 60_000;

/** The member of a write tool's input that carries the token, on every transport. */
const tokenMember = "confirmation_token";

export const confirmationExpired = toolFailure(
  "GATEWAY_CONFIRMATION_EXPIRED",
  "the confirmation token has expired, was used, or was made for another call",
);

/** What a token stands for: this key, this tool, these arguments, however they were written. */
export interface ConfirmedCall {
  readonly keyId: string;
  readonly tool: string;
  readonly input: unknown;
}

export interface Confirmations {
  /** GATEWAY_CONFIRMATION_REQUIRED with a new token for the call. */
  ask(call: ConfirmedCall, summary: object): ToolFailure;
  /** Undefined: the token is not good for this call. `claim` uses it up; false when someone has done so before. */
  redeem(token: string, call: ConfirmedCall): { claim(): boolean } | undefined;
}

interface Ticket {
  readonly id: string;
  readonly binding: string;
}

export function createConfirmations(parts: {
  readonly clock: Clock;
  readonly seal: Seal;
  readonly claims: Claims;
}): Confirmations {
  const { clock, seal, claims } = parts;
  return {
    ask(call, summary) {
      const expiresAt = clock.now() + lifetimeMs;
      const ticket: Ticket = { id: randomUUID(), binding: bindingOf(call) };
      return toolFailure("GATEWAY_CONFIRMATION_REQUIRED", "confirmation required", {
        confirmation_token: seal.seal(purpose, ticket, expiresAt),
        expires_at: new Date(expiresAt).toISOString(),
        summary,
      });
    },
    redeem(token, call) {
      const opened = seal.open(purpose, token);
      if (opened === undefined || opened.expiresAt <= clock.now()) return undefined;
      const { value, expiresAt } = opened;
      if (!isTicket(value) || value.binding !== bindingOf(call)) return undefined;
      return { claim: () => claims.claim(`${purpose} ${value.id}`, expiresAt) };
    },
  };
}

/** The input schema of a write tool as it is published and checked: the tool's own, and the token. */
export function withToken(schema: JsonSchema): JsonSchema {
  const properties = {
    // A schema of type object; what its properties are is for ajv to judge.
    ...(schema["properties"] as object | undefined),
    [tokenMember]: {
      type: "string",
      description: "The token that the first, unconfirmed call answered with; valid for 5 minutes.",
    },
  };
  return { ...schema, properties };
}

/** A valid input of a write tool, apart: the tool's own input, and the token if there was one. */
export function takeToken(given: unknown): {
  readonly input: object;
  readonly token: string | undefined;
} {
  // The schema of `withToken` has been checked: an object, whose token is a string if there is one.
  const { [tokenMember]: token, ...input } = given as Record<string, unknown>;
  return { input, token: token as string | undefined };
}

function bindingOf({ keyId, tool, input }: ConfirmedCall): string {
  return createHash("sha256")
    .update(canonicalJson([keyId, tool, input]))
    .digest("base64url");
}

function isTicket(value: unknown): value is Ticket {
  return (
    typeof value === "object" &&
    value !== null &&
    "id" in value &&
    typeof value.id === "string" &&
    "binding" in value
  );
}
