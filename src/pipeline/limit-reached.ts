/** The limit that a refusal is about. */
import type { LimitReached, Reply } from "../plugin.ts";

/**
 * What the reply itself says, or for credit what its `details` say (gateway.md, "CU-limit details"): surfaces that
 * refuse credit in the canonical envelope need say nothing more.
 */
export function limitReached({ reached, code, body }: Reply): LimitReached | undefined {
  if (reached !== undefined || code !== "GATEWAY_CU_LIMIT_EXCEEDED") return reached;
  if (typeof body !== "string") return undefined;
  const details = detailsOf(body);
  const { window, used_cu_milli: used, limit_cu_milli: limit } = details;
  if (typeof used !== "number" || typeof limit !== "number") return undefined;
  return {
    scope: window === "24h" || window === "30d" ? window : "plan",
    unit: "milli-CU",
    used,
    limit,
  };
}

function detailsOf(body: string): Readonly<Record<string, unknown>> {
  try {
    const { details } = JSON.parse(body) as { readonly details?: unknown };
    // An object of JSON.
    if (typeof details === "object" && details !== null) return details as Record<string, unknown>;
  } catch {
    // A surface may use the code in a shape of its own.
  }
  return {};
}
