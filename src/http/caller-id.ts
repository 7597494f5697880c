import { addressKey } from "../base/address.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";

/** Identifies the caller of an exchange by its key, or else by its address, for the limits per caller. */
export function callerId({ facts, request }: LiveExchange): string {
  return facts.caller?.id ?? addressKey(request.address);
}
