import { once } from "node:events";
import { writeFileSync } from "node:fs";
import {
  connect,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { ServerConfig } from "../../../src/config/config.ts";
import type { Metrics, SurfaceHooks } from "../../../src/plugin.ts";
import { cert, key } from "../../certificate.ts";
import { serve, type Served, type TestStep } from "../../pipeline/harness.ts";
import { temporaryFolder } from "../../store/folder.ts";

export interface Http2Served extends Served {
  connect(): Promise<ClientHttp2Session>;
}

export async function serveTls(
  t: TestContext,
  answer: SurfaceHooks["answer"],
  options: {
    readonly server?: Partial<ServerConfig>;
    readonly surface?: Omit<SurfaceHooks, "answer">;
    readonly steps?: readonly TestStep[];
    readonly websocket?: boolean;
    readonly metrics?: Metrics;
  } = {},
): Promise<Http2Served> {
  const folder = temporaryFolder(t);
  const files = { cert: join(folder, "tls.crt"), key: join(folder, "tls.key") };
  writeFileSync(files.cert, cert);
  writeFileSync(files.key, key);
  const surface = { ...options.surface, answer };
  const { steps = [], websocket = false } = options;
  const served = await serve([{ path: "/*", steps, surface, websocket }], {
    server: { ...options.server, tls: files },
    ...(options.metrics !== undefined && { metrics: options.metrics }),
  });
  const clients: ClientHttp2Session[] = [];
  return Object.assign(served, {
    async connect() {
      // The second option lets tests send what this client would refuse.
      const tls = { ca: cert, strictSingleValueFields: false };
      const session = connect(`https://127.0.0.1:${served.port}`, tls);
      session.on("error", () => {});
      clients.push(session);
      t.after(() => session.destroy());
      await once(session, "connect");
      return session;
    },
  });
}

export interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** 0 if the response is complete. */
  readonly code: number | undefined;
  readonly trailers: IncomingHttpHeaders;
}

/** Reads a response to its end, or until it is reset. */
export async function read(stream: ClientHttp2Stream): Promise<Answer> {
  let headers: IncomingHttpHeaders & { ":status"?: number } = {};
  let trailers: IncomingHttpHeaders = {};
  let body = "";
  stream.on("error", () => {});
  stream.on("response", (given) => {
    headers = given;
  });
  stream.on("trailers", (given) => {
    trailers = given;
  });
  stream.on("data", (bytes: Buffer) => {
    body += bytes.toString("latin1");
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once("close", resolve);
  await promise;
  return { status: headers[":status"], headers, body, code: stream.rstCode, trailers };
}

export function send(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body?: string | Buffer,
): Promise<Answer> {
  const stream = session.request(headers, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  return read(stream);
}
