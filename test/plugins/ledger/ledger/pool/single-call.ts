/** A call for a client of a node, without a pool, that records how it ends. */
import { NodeCall, type Failure } from "../../../../../plugins/ledger/ledger/pool/node-call.ts";
import type { UpstreamFailure } from "../../../../../src/contract/upstream-failure.ts";

type Ending =
  | { readonly kind: "result" | "error"; readonly text: string }
  | { readonly kind: "failed"; readonly reason: string };

export class SingleCall extends NodeCall {
  readonly ending: Promise<Ending>;
  endings = 0;
  cause: string | undefined;
  errno: string | undefined;
  readonly #resolve: (ending: Ending) => void;

  constructor(over: Partial<NodeCall["spec"]> = {}) {
    super({
      method: "state_getStorage",
      params: '["0x01"]',
      retry: true,
      cheap: false,
      ...over,
    });
    const { promise, resolve } = Promise.withResolvers<Ending>();
    this.ending = promise;
    this.#resolve = resolve;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.endings++;
    this.#resolve({ kind, text: bytes.toString("utf8", start, end) });
  }

  onError(why: Failure, cause?: UpstreamFailure): void {
    this.endings++;
    this.cause = why.kind;
    this.errno = cause?.errno;
    this.#resolve({ kind: "failed", reason: why.reason });
  }
}
