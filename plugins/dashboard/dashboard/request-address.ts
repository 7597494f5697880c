/** The address that a request of the admin listener comes from, as the listener has found it. */
import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";

const addresses = new WeakMap<IncomingMessage, string>();

export function rememberAddress(request: IncomingMessage, address: string): void {
  addresses.set(request, address);
}

export function addressOf({ raw }: Pick<FastifyRequest, "raw">): string {
  return addresses.get(raw) ?? "unknown";
}
