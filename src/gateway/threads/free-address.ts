import { createServer, type AddressInfo } from "node:net";
import type { ServerConfig } from "../../config/config.ts";
import { bind } from "../../http/bind.ts";

/**
 * Returns the address to listen on. Threads share a port with any process of the same user that also shares it, so this
 * first takes the port alone. Rejects with a ListenError if the port is in use.
 */
export async function freeAddress(server: ServerConfig): Promise<{ host: string; port: number }> {
  const probe = createServer((socket) => socket.destroy());
  await bind(probe, { section: "server", host: server.host, port: server.port }, 1);
  // A listening TCP server has an AddressInfo. Only pipes have a string.
  const { address: host, port } = probe.address() as AddressInfo;
  const { promise, resolve } = Promise.withResolvers<void>();
  probe.close(() => resolve());
  await promise;
  return { host, port };
}
