import { excessReasons, refuse, statusReasons, type RefuseOptions } from "../../base/errors.ts";
import {
  abandonBody,
  readBody,
  tooLarge,
  type BodyListener,
  type BodyResult,
} from "../../message/body.ts";
import {
  jsonBytesExcess,
  maxJsonDepth,
  maxJsonParts,
  type JsonExcess,
} from "../../base/json-bounds.ts";
import type { Reply } from "../../plugin.ts";
import type { LiveExchange } from "./exchange.ts";
import { replyFromCore } from "./reply.ts";

/** Reads the bodies of requests whole. Shared by all exchanges, so that none needs a listener of its own. */
export class RequestBodyReader implements BodyListener<LiveExchange> {
  readonly #next: (x: LiveExchange) => void;

  constructor(next: (x: LiveExchange) => void) {
    this.#next = next;
  }

  begin(x: LiveExchange, capBytes: number): void {
    const { mediaTypes } = x.compiled;
    if (mediaTypes !== undefined && !accepts(mediaTypes, x.request.headers["content-type"])) {
      return refuseBody(x, 415, `content-type must be ${mediaTypes.join(" or ")}`);
    }
    const { body } = x.arrival;
    if (Buffer.isBuffer(body)) {
      return this.onEnd(x, body.length > capBytes ? tooLarge : { kind: "body", body });
    }
    if (x.request.hasBody) {
      const admitted = x.runtime.bodyWatch.admit(x);
      if (!("isWatched" in admitted)) return replyFromCore(x, admitted);
      x.bodyArrives(admitted);
    }
    x.sendContinue();
    readBody(body, capBytes, x, this);
  }

  onData(x: LiveExchange, bytes: number): void {
    x.bodyReceived(bytes);
  }

  onEnd(x: LiveExchange, result: BodyResult): void {
    // The body watch may have refused the body meanwhile.
    if (!x.isUnanswered) return x.releaseBody();
    if (result.kind === "tooLarge") {
      x.releaseBody();
      const { bodyBytes, tooLargeStatus } = x.compiled;
      const details = { reason: statusReasons[413] };
      const message = `the body is larger than ${bodyBytes} bytes`;
      return refuseBody(x, tooLargeStatus, message, { details });
    }
    const { readsJson } = x.compiled;
    const excess = readsJson ? jsonBytesExcess(result.body) : undefined;
    if (excess !== undefined) {
      x.releaseBody();
      return refuseBody(x, 400, ...excessive[excess]);
    }
    x.setBody(result.body, readsJson);
    this.#next(x);
  }
}

const excessive: Readonly<Record<JsonExcess, [string, RefuseOptions]>> = {
  parts: [
    `the body has more than ${maxJsonParts} members and elements`,
    { details: { reason: excessReasons.parts } },
  ],
  depth: [
    `the body is nested deeper than ${maxJsonDepth} levels`,
    { details: { reason: excessReasons.depth } },
  ],
};

export function bodyTimedOut(x: LiveExchange): void {
  if (x.isStreaming || x.compiled.bodyBytes === undefined) return x.cutOff("timedOut");
  // The connection cannot be used any more (RFC 9110 section 15.5.9).
  const headers = ["connection", "close"];
  const message = "the request body arrived too slowly";
  const reply = refuse("GATEWAY_INVALID_PARAMS", { status: 408, message, headers });
  bodyRefused(x, { ...reply, outcome: "timedOut" });
}

/** Ends an exchange whose body is not read to its end. The part that has arrived is dropped. */
export function bodyRefused(x: LiveExchange, reply: Reply): void {
  const { body } = x.arrival;
  if (!Buffer.isBuffer(body)) abandonBody(body);
  replyFromCore(x, reply);
}

function refuseBody(
  x: LiveExchange,
  status: number,
  message: string,
  options: Pick<RefuseOptions, "details"> = {},
): void {
  replyFromCore(x, refuse("GATEWAY_INVALID_PARAMS", { ...options, status, message }));
}

/** Compares media types without parameters and case (RFC 9110 section 8.3.1). */
function accepts(types: readonly string[], header: string | undefined): boolean {
  if (header === undefined) return false;
  if (types.includes(header)) return true;
  const end = header.indexOf(";");
  const type = (end === -1 ? header : header.slice(0, end)).trim().toLowerCase();
  return types.includes(type);
}
