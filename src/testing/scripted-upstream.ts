/** An HTTP server for tests, in place of a backend: it records its requests and sends the replies that the test supplies. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface UpstreamRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface UpstreamReply {
  /** Default 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON. */
  readonly body?: string | Uint8Array | object;
  /** The connection breaks after the body, so that the response is not complete. */
  readonly breaks?: boolean;
}

export interface ScriptedUpstream extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly UpstreamRequest[];
}

/**
 * Starts the server. `script`: the replies in their order, the last of which is repeated, or a function that returns the
 * reply to a request. A promise that never resolves is a backend that hangs.
 */
export async function scriptedUpstream(
  script:
    | readonly UpstreamReply[]
    | ((request: UpstreamRequest) => UpstreamReply | Promise<UpstreamReply>),
): Promise<ScriptedUpstream> {
  const requests: UpstreamRequest[] = [];
  const replyTo = (request: UpstreamRequest): UpstreamReply | Promise<UpstreamReply> => {
    if (typeof script === "function") return script(request);
    return script[Math.min(requests.length, script.length) - 1] ?? {};
  };
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const { method = "", url: path = "", headers } = req;
      const request = { method, path, headers, body: Buffer.concat(chunks).toString() };
      requests.push(request);
      void Promise.try(() => replyTo(request)).then(
        (reply) => send(res, reply),
        () => res.destroy(),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening TCP server has an AddressInfo. Only pipes have a string.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function send(
  res: ServerResponse,
  { status = 200, headers = {}, body, breaks }: UpstreamReply,
): void {
  const isJson = typeof body === "object" && !(body instanceof Uint8Array);
  res.writeHead(status, { ...(isJson && { "content-type": "application/json" }), ...headers });
  const bytes = isJson ? JSON.stringify(body) : (body ?? "");
  if (breaks === true) res.write(bytes, () => res.destroy());
  else res.end(bytes);
}
