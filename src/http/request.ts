/** Single requests of plugins: probes, polled documents, deliveries. Proxied requests use `Http1Client`. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";

export interface HttpRequest {
  readonly method?: string;
  /** Those that say where the body ends are ignored. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Must be read or dumped, so that the connection can be used again. */
  readonly body: AsyncIterable<Buffer>;
  /** Reads the rest of the body, and throws it away. If it has more than `limit` bytes, the connection ends. */
  readonly dump: (limit?: number) => Promise<void>;
}

/** Rejects if there is no response, or if the signal aborts. */
export type SendRequest = (url: string, request: HttpRequest) => Promise<HttpResponse>;

const maxDumpedBytes = 131_072;
const framing: readonly string[] = ["content-length", "transfer-encoding"];

export const sendRequest: SendRequest = (url, { body: sent, headers: given = {}, ...rest }) =>
  new Promise((resolve, reject) => {
    const own = Object.entries(given).filter(([name]) => !framing.includes(name.toLowerCase()));
    const options = { ...rest, headers: Object.fromEntries(own) };
    const request = new URL(url).protocol === "https:" ? requestHttps : requestHttp;
    request(url, options, (response) => {
      const { statusCode = 0, headers } = response;
      // A stream without an encoding consists of buffers.
      const body = response as AsyncIterable<Buffer>;
      const dump: HttpResponse["dump"] = async (limit = maxDumpedBytes) => {
        let left = limit;
        for await (const { length } of body) {
          left -= length;
          if (left < 0) return;
        }
      };
      resolve({ statusCode, headers, body, dump });
    })
      .on("error", reject)
      // Without a listener, the request would never end.
      .on("upgrade", (_response, socket) => {
        socket.destroy();
        reject(new Error("the server switched protocols"));
      })
      .end(sent);
  });
