import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { PluginUse } from "../config/config.ts";
import type { Log } from "../plugin.ts";
import { StartError } from "../start-error.ts";

type Handler = (req: IncomingMessage, res: ServerResponse) => void;

export interface WrappedServer {
  readonly server: Server;
  close(): Promise<void>;
}

/**
 * Creates the server. Without Fastify plugins, `handle` is its request listener. With them, every request passes
 * Fastify's hooks first, and the headers that they set are kept. A plugin that answers (`@fastify/static`) answers
 * before any route. Payload hooks (`onSend`) do not see streamed answers, because the pipeline writes to the socket
 * itself. Throws StartError if a plugin cannot be registered.
 */
export async function withFastify(
  uses: readonly PluginUse[],
  handle: Handler,
  createServer: (handler: Handler) => Server,
  log: Log,
): Promise<WrappedServer> {
  if (uses.length === 0) return { server: createServer(handle), close: async () => {} };
  // Fastify is large, so it is only loaded if it is used.
  const { openFastify, registrationFault } = await import("../pipeline/load/fastify-app.ts");
  const opened = await openFastify({ uses, handle, createServer, log });
  if ("failed" in opened) throw new StartError([registrationFault(opened.failed, opened.error)]);
  const { app } = opened;
  return { server: app.server, close: () => app.close() };
}
