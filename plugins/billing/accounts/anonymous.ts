/** Principals of callers without a usable key, each with its message (gateway.md, Authentication). */
import { anonymous, type Anonymous } from "sluice-gateway/services";
import { keyEnvironment } from "./key-text.ts";

export const bearer = "Bearer ";

export const missing = anonymous("missing authorization header");
const malformed = anonymous("invalid authorization format");
export const unauthorized = anonymous("unauthorized");
export const expired = anonymous("api key has expired");
export const wrongAddress = anonymous("api key not allowed from this address");

/**
 * Returns the principal for a header that does not contain a usable key of this deployment (gateway.md,
 * Authentication).
 */
export function anonymousFor(authorization: string): Anonymous {
  const isKey =
    authorization.startsWith(bearer) && keyEnvironment(authorization, bearer.length) !== undefined;
  return isKey ? unauthorized : malformed;
}
