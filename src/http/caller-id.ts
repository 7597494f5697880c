import { addressKey } from "../base/address.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";

export function callerId({ facts, request }: LiveExchange): string {
  return facts.caller?.id ?? addressKey(request.address);
}
