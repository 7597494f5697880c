/** Principals of callers without a usable key, each with its message (gateway.md, Authentication). */
import { anonymous, type Anonymous, type ApiKey } from "sluice-gateway/services";
import { keyEnvironment } from "./key-text.ts";

export const bearer = "Bearer ";

export const missing = anonymous("missing authorization header");
const malformed = anonymous("invalid authorization format");
export const unauthorized = anonymous("unauthorized");
export const wrongEnvironment = anonymous("unauthorized", { cause: "environment" });

export function revoked(key: ApiKey): Anonymous {
  return anonymous("unauthorized", { cause: "revoked", key });
}

export function expired(key: ApiKey): Anonymous {
  return anonymous("api key has expired", { key });
}

export function wrongAddress(key: ApiKey): Anonymous {
  return anonymous("api key not allowed from this address", { key });
}

/**
 * Returns the principal for a header that does not contain a usable key of this deployment (gateway.md,
 * Authentication).
 */
export function anonymousFor(authorization: string): Anonymous {
  const isKey =
    authorization.startsWith(bearer) && keyEnvironment(authorization, bearer.length) !== undefined;
  return isKey ? wrongEnvironment : malformed;
}
