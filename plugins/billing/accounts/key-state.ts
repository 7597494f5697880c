/** Decides whether a key can be used. */
import type { ApiKey, KeyState } from "sluice-gateway/services";

export function keyState(key: ApiKey, now: number): KeyState {
  if (key.revokedAt !== undefined) return "revoked";
  return key.expiresAt !== undefined && now >= key.expiresAt ? "expired" : "active";
}
