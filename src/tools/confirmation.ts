/**
 * Confirmation of write tools (decisions.md section 6): the first call gets a token, the second one, with the token and
 * the same arguments, runs. A token is sealed, bound to key, tool and canonical arguments, valid for 5 minutes, and used
 * once: across replicas and restarts, because its claim is kept in the store.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Claims, Clock, Seal } from "../services.ts";
import {
  toolFailure,
  type Tool,
  type ToolCaller,
  type ToolContext,
  type ToolFailure,
} from "../tool.ts";
import { canonicalJson } from "./canonical-json.ts";

const purpose = "confirmation";
const lifetimeMs = 5 * 60_000;

const expired = toolFailure(
  "GATEWAY_CONFIRMATION_EXPIRED",
  "the confirmation token has expired, was used, or was made for another call",
);

export interface Confirmations {
  /** Undefined: confirmed, go on. GATEWAY_CONFIRMATION_REQUIRED or _EXPIRED otherwise. */
  require(
    tool: Tool<unknown>,
    input: unknown,
    caller: ToolCaller,
    context: ToolContext,
  ): Promise<ToolFailure | undefined>;
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
    tool: Tool<unknown>,
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
    async require(tool, input, caller, context) {
      const binding = bindingOf(caller.principal.key.id, tool.name, input);
      return caller.confirmationToken === undefined
        ? issue(tool, input, binding, context)
        : redeem(caller.confirmationToken, binding);
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
