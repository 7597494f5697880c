/** The address that a request of the admin listener comes from. */
import type { FastifyRequest } from "fastify";
import { addressReader } from "sluice-gateway/http";

const socketAddress = addressReader([]);

/** Returns the address of the socket's peer. */
export function addressOf(request: FastifyRequest): string {
  return socketAddress(request.raw);
}
