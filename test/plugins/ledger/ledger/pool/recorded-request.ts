/** Calls for a client of a node that record their end. */
import { NodeCall } from "../../../../../plugins/ledger/ledger/pool/node-call.ts";
import type { Failure } from "../../../../../plugins/ledger/ledger/pool/failure.ts";
import type { NodeRequest } from "../../../../../plugins/ledger/ledger/node-pool.ts";
import type { UpstreamFailure } from "../../../../../src/contract/upstream-failure.ts";

export type RequestOutcome =
  | { readonly kind: "result" | "error"; readonly text: string }
  | { readonly kind: "failed"; readonly reason: string };

export interface RecordedRequest extends NodeRequest {
  readonly ending: Promise<RequestOutcome>;
  /** Number of times that it has ended. */
  endings: number;
}

export function recordRequest(over: Partial<NodeRequest> = {}): RecordedRequest {
  const { promise, resolve } = Promise.withResolvers<RequestOutcome>();
  const request: RecordedRequest = {
    method: "state_getStorage",
    params: '["0x01"]',
    retry: true,
    cheap: false,
    ...over,
    ending: promise,
    endings: 0,
    onAnswer(kind, bytes, start, end) {
      request.endings++;
      resolve({ kind, text: bytes.toString("utf8", start, end) });
    },
    onError(reason) {
      request.endings++;
      resolve({ kind: "failed", reason });
    },
  };
  return request;
}

/** Makes a call for a client alone, without a pool. `cause` is the kind of the failure. */
export class SingleCall extends NodeCall {
  readonly request: RecordedRequest;
  cause: string | undefined;
  errno: string | undefined;

  constructor(over: Partial<NodeRequest> = {}) {
    const asked = recordRequest(over);
    super(asked);
    this.request = asked;
  }

  get ending(): Promise<RequestOutcome> {
    return this.request.ending;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.request.onAnswer(kind, bytes, start, end);
  }

  onError(why: Failure, cause?: UpstreamFailure): void {
    this.cause = why.kind;
    this.errno = cause?.errno;
    this.request.onError(why.reason);
  }
}
