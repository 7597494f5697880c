/** The connection to one server of the Model Context Protocol. */
import {
  Client,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import type { Host } from "sluice-gateway/plugin";

type Fields = Readonly<Record<string, string>>;

/** Returns the functions that use the connection. It is opened by the first request. */
export function connection(prefix: string, url: string, headers: Fields, host: Host) {
  const upstream = host.upstream(url, { answerMs: 30_000, idleMs: 30_000 });
  let connected: Promise<Client> | undefined;
  let isAway = false;

  /** Sends a request over the pooled connections of the gateway, which return whole answers and no endless stream. */
  async function fetch(_: unknown, init: RequestInit = {}): Promise<Response> {
    const { method = "GET", body, signal } = init;
    if (method === "GET") return new Response(null, { status: 405 });
    const fields = Object.fromEntries(new Headers(init.headers));
    const content = typeof body === "string" ? { body } : {};
    const request = { method, headers: fields, ...content, ...(signal && { signal }) };
    const answer = await upstream.request(request);
    const whole = answer.body.length === 0 ? null : answer.body.toString();
    return new Response(whole, { status: answer.status, headers: { ...answer.headers } });
  }

  async function connect(): Promise<Client> {
    const client = new Client({ name: "sluice", version: host.version });
    const options = { requestInit: { headers }, fetch };
    const transport = new StreamableHTTPClientTransport(new URL(url), options);
    await client.connect(transport, { timeout: 5_000 });
    return client;
  }

  function logAway(isNow: boolean, error?: unknown): void {
    if (isNow && !isAway) host.log.warn({ err: error, server: prefix }, "an MCP server is away");
    if (!isNow && isAway) host.log.info({ server: prefix }, "an MCP server answers again");
    isAway = isNow;
  }

  /** Returns undefined after a failure, which is logged. After a failure of the transport, the next call connects again. */
  async function ask<T>(
    question: (client: Client) => Promise<T>,
    isRetry = false,
  ): Promise<T | undefined> {
    const connecting = (connected ??= connect());
    let client: Client | undefined;
    try {
      client = await connecting;
      const answer = await question(client);
      logAway(false);
      return answer;
    } catch (error) {
      if (client !== undefined && concernsOneRequest(error)) {
        host.log.warn({ err: error, server: prefix }, "a request to an MCP server failed");
        return undefined;
      }
      // The old client is not closed, because other requests may still run on it.
      if (connected === connecting) connected = undefined;
      // A server that was restarted does not know the session. It has not run the request.
      if (client !== undefined && !isRetry && hasLostSession(error)) return ask(question, true);
      logAway(true, error);
      return undefined;
    }
  }

  const close = () => connected?.then((client) => client.close()).catch(() => {});
  return { ask, close };
}

/** Returns true for a JSON-RPC error, an abort, a timeout or a wrong result, after which the connection is still usable. */
function concernsOneRequest(error: unknown): boolean {
  const codes = [SdkErrorCode.RequestTimeout, SdkErrorCode.InvalidResult];
  return (
    error instanceof ProtocolError || (error instanceof SdkError && codes.includes(error.code))
  );
}

function hasLostSession(error: unknown): boolean {
  return error instanceof SdkHttpError && error.data?.status === 404;
}
