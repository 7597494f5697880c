/**
 * Confirmation of write tools (decisions.md section 6): the first call gets a token, the second one, with the token and
 * the same arguments, runs. A token is sealed, bound to key, tool and canonical arguments, valid for 5 minutes, and used
 * once: across replicas and restarts, because its claim is kept in the store.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Claims, Clock, JsonSchema, Seal } from "../services.ts";
import { toolFailure, type Tool, type ToolContext, type ToolFailure } from "../tool.ts";
import { canonicalJson } from "./canonical-json.ts";

const purpose = "confirmation";
const lifetimeMs = 5 * 60_000;

const expired = toolFailure(
  "GATEWAY_CONFIRMATION_EXPIRED",
  "the confirmation token has expired, was used, or was made for another call",
);

export interface Confirmations {
  /**
   * Undefined: confirmed, go on. GATEWAY_CONFIRMATION_REQUIRED or _EXPIRED otherwise. `input` holds no token: that
   * would bind it to itself. Rejects when the tool's `summarise` does.
   */
  require(
    tool: Tool,
    input: unknown,
    token: string | undefined,
    context: ToolContext,
  ): Promise<ToolFailure | undefined>;
}

/** The member of a write tool's input that carries the token, on every transport. */
const tokenMember = "confirmation_token";

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

  async function issue(
    tool: Tool,
    input: unknown,
    binding: string,
    context: ToolContext,
  ): Promise<ToolFailure> {
    const summarised = (await tool.summarise?.(input, context)) ?? { ok: true, summary: {} };
    if (!summarised.ok) return summarised;
    const expiresAt = clock.now() + lifetimeMs;
    const ticket: Ticket = { id: randomUUID(), binding };
    return toolFailure("GATEWAY_CONFIRMATION_REQUIRED", "confirmation required", {
      confirmation_token: seal.seal(purpose, ticket, expiresAt),
      expires_at: new Date(expiresAt).toISOString(),
      summary: summarised.summary,
    });
  }

  function redeem(token: string, binding: string): ToolFailure | undefined {
    const opened = seal.open(purpose, token);
    if (opened === undefined || opened.expiresAt <= clock.now()) return expired;
    const { value } = opened;
    if (!isTicket(value) || value.binding !== binding) return expired;
    return claims.claim(`${purpose} ${value.id}`, opened.expiresAt) ? undefined : expired;
  }

  return {
    async require(tool, input, token, context) {
      const binding = bindingOf(context.principal.key.id, tool.name, input);
      return token === undefined ? issue(tool, input, binding, context) : redeem(token, binding);
    },
  };
}

/** What a token stands for: this key, this tool, these arguments, however they were written. */
function bindingOf(keyId: string, tool: string, input: unknown): string {
  const text = canonicalJson([keyId, tool, input]);
  return createHash("sha256").update(text).digest("base64url");
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
