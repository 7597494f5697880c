import { Client, SdkHttpError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Host } from "sluice-gateway/plugin";

/** The first request opens a session. */
export function connection(url: string, requestInit: RequestInit, host: Host) {
  const upstream = host.upstream(url, { answerMs: 30_000, idleMs: 30_000 });
  let session: Promise<Client> | undefined;

  /** Refuses the event stream that the client asks for with GET, because it would never end. */
  const fetch: typeof upstream.fetch = async (address, init) =>
    init?.method === "GET" ? new Response(null, { status: 405 }) : upstream.fetch(address, init);

  async function open(): Promise<Client> {
    const client = new Client({ name: "sluice", version: host.version }, { listMaxPages: 16 });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch });
    await client.connect(transport, { timeout: 5_000 });
    return client;
  }

  /** After an HTTP error, the next request opens a new session. */
  async function ask<T>(question: (client: Client) => Promise<T>, isRetry = false): Promise<T> {
    const opening = (session ??= open());
    let client: Client | undefined;
    try {
      client = await opening;
      return await question(client);
    } catch (error) {
      const isHttpError = error instanceof SdkHttpError;
      // The old client is not closed, because other requests may still run on it.
      if (session === opening && (isHttpError || client === undefined)) session = undefined;
      // A server that does not know the session, because it was restarted, has not run the request.
      if (isHttpError && error.status === 404 && !isRetry) return ask(question, true);
      throw error;
    }
  }

  return {
    // With `bypass`, the client keeps no list, so it does not run the output schemas of a list on results.
    listTools: () => ask((to) => to.listTools(undefined, { timeout: 5_000, cacheMode: "bypass" })),
    callTool: (name: string, input: Record<string, unknown>, signal: AbortSignal) =>
      ask((client) => client.callTool({ name, arguments: input }, { signal })),
    close: () => session?.then((client) => client.close()).catch(() => {}),
  };
}
