/**
 * undici as an upstream client. `forward` uses it for what `Http1Client` leaves out: streamed request bodies, trailers,
 * interim responses and any method.
 *
 * `headersMs` and `idleMs` are undici's own timers, which are cheap to refresh and up to one second late. They do not
 * run while the exchange is paused.
 */
import { createRequire } from "node:module";
import type * as Undici from "undici";
import { codeSuffix, packageFile } from "../../package-files.ts";
import type { Upstream } from "../../plugin.ts";
import type { Carrier, UpstreamClient, UpstreamFailure } from "./upstream-client.ts";

const require = createRequire(import.meta.url);
/** The build puts undici into a separate file (.ci/bundle.ts). */
const source = codeSuffix === ".ts" ? "undici" : packageFile("src/chunks/undici.cjs");

/**
 * Loads undici on first use, which saves 3 to 4 MiB in a gateway that only uses nodes. Call it during the start, because
 * the first call reads and runs about a hundred files.
 */
export function undici(): typeof Undici {
  // `require` returns any. These are the package's own types.
  return require(source) as typeof Undici;
}

/** The head of a final or interim response. */
export interface ForwardedHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Names and values as they arrived, alternately. */
  readonly raw: readonly Buffer[];
}

/**
 * `stale`: the request was sent on a kept connection that the backend had already closed, and nothing arrived.
 * `invalid`: undici refuses to send the request.
 */
export type ForwardFailure = UpstreamFailure | "stale" | "invalid";

export interface ForwardedExchange {
  /** A stream as its body is destroyed at the end of the exchange. */
  readonly request: Undici.Dispatcher.DispatchOptions;
  /** Called when the exchange has a connection. */
  onStart(carrier: Carrier): void;
  /** Called for each interim response (status below 200), and for the final one. */
  onHead(head: ForwardedHead): void;
  onData(chunk: Buffer): void;
  /** `trailers`: in the form of `ForwardedHead.raw`. */
  onEnd(trailers: readonly Buffer[] | undefined): void;
  onError(failure: ForwardFailure): void;
}

export class UndiciClient implements UpstreamClient<ForwardedExchange> {
  readonly #pool: Undici.Pool;

  constructor(origin: string, { connections, connectMs, headersMs, idleMs }: Upstream) {
    this.#pool = new (undici().Pool)(origin, {
      connections,
      connectTimeout: connectMs,
      headersTimeout: headersMs,
      bodyTimeout: idleMs,
      // With one request at a time on a connection, no client waits for the answer to another one.
      pipelining: 1,
      allowH2: false,
    });
  }

  get stats(): Undici.Pool["stats"] {
    return this.#pool.stats;
  }

  send(exchange: ForwardedExchange): void {
    this.#pool.dispatch(exchange.request, handlerOf(exchange));
  }

  drain(): Promise<void> {
    return this.#pool.close();
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}

/** The reason that undici requires for an abort. It is never shown. */
const abortReason = new Error("abandoned");

/** Returns the handler that passes undici's callbacks on to the exchange. */
function handlerOf(exchange: ForwardedExchange): Undici.Dispatcher.DispatchHandler {
  let hasStarted = false;
  let hasAnswer = false;
  return {
    onRequestStart(controller) {
      hasStarted = true;
      exchange.onStart({
        pause: () => controller.pause(),
        resume: () => controller.resume(),
        abort: () => controller.abort(abortReason),
      });
    },
    onResponseStarted: () => (hasAnswer = true),
    onResponseStart: ({ rawHeaders }, status, headers) =>
      // For HTTP/1.1, undici passes raw fields as an array of Buffers.
      exchange.onHead({ status, headers, raw: rawHeaders as Buffer[] }),
    onResponseData: (_, chunk) => exchange.onData(chunk),
    onResponseEnd: ({ rawTrailers }) => exchange.onEnd(rawTrailers as Buffer[] | undefined),
    onResponseError: (_, error) => exchange.onError(failureOf(error, hasStarted, hasAnswer)),
  };
}

function failureOf(error: Error, hasStarted: boolean, hasAnswer: boolean): ForwardFailure {
  const code = "code" in error ? error.code : undefined;
  if (!hasStarted) {
    const isInvalid = code === "UND_ERR_INVALID_ARG" || code === "UND_ERR_NOT_SUPPORTED";
    return isInvalid ? "invalid" : "refused";
  }
  if (code === "UND_ERR_HEADERS_TIMEOUT") return "answerTimeout";
  if (code === "UND_ERR_BODY_TIMEOUT") return "idleTimeout";
  const isReset = code === "ECONNRESET" || code === "EPIPE" || servedBefore(error);
  return isReset && !hasAnswer ? "stale" : "closed";
}

/** Returns true if the connection has received bytes before. undici's socket errors contain that number. */
function servedBefore(error: Error): boolean {
  return error instanceof undici().errors.SocketError && (error.socket?.bytesRead ?? 0) > 0;
}
