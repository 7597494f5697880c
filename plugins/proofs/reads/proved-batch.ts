import type { CallReporter, Memory } from "sluice-gateway/plugin";
import type {
  LedgerFailure,
  LedgerRpc,
  ProvedRpc,
  RpcAnswer,
  RpcCaller,
} from "sluice-gateway/services";
import type { ProvedCall } from "./proved-call.ts";

/** Number of calls of a batch that are proved at the same time. */
const parallel = 8;
const internalError = '{"code":-32603,"message":"Internal Error"}';

export class ProvedBatch implements ProvedRpc {
  readonly #calls: readonly ProvedCall[];
  readonly #maxBytes: number;
  #isReleased = false;

  /** `calls`: at least one. `maxBytes`: maximum size of the answer. */
  constructor(calls: readonly ProvedCall[], maxBytes: number) {
    this.#calls = calls;
    this.#maxBytes = maxBytes;
  }

  get proof(): string {
    const states = this.#calls.map(({ outcome }) => outcome.state);
    const counts = (["finalized", "included", "none"] as const).map(
      (state) => `${state}=${states.filter((each) => each === state).length}`,
    );
    return `partial; ${counts.join("; ")}`;
  }

  get costMilliCu(): number {
    return this.#calls.reduce((sum, { costMilliCu }) => sum + costMilliCu, 0);
  }

  get lines(): LedgerRpc["lines"] {
    return this.#calls.flatMap(({ lines }) => lines);
  }

  get failure(): LedgerFailure | undefined {
    if (this.lines.length > 0) return undefined;
    return this.#calls.findLast(({ failure }) => failure !== undefined)?.failure;
  }

  async run(caller?: RpcCaller, memory?: Memory): Promise<RpcAnswer> {
    using held = memory?.hold(caller?.facts?.caller?.id ?? "", "result");
    const answers: (readonly Uint8Array[])[] = [];
    const waiting = [...this.#calls.entries()];
    let bytes = 2;
    const runNext = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [index, call] = next;
        const mayRun = !this.#isReleased && caller?.clientLeft !== true && bytes < this.#maxBytes;
        const answer = piecesOf(mayRun ? await call.run(caller, memory) : undefined);
        const size = answer.reduce((sum, { length }) => sum + length, 1);
        bytes += size;
        const hasRoom = size > 1 && bytes <= this.#maxBytes && held?.resize(bytes) !== false;
        answers[index] = hasRoom ? answer : piecesOf(call.refuse(internalError));
      }
    };
    await Promise.all(Array.from({ length: parallel }, runNext));
    const pieces = answers.flatMap((answer, at) => [at === 0 ? open : comma, ...answer]);
    return [...pieces, close];
  }

  refuse(error: string): string {
    return `[${this.#calls.map((call) => call.refuse(error)).join()}]`;
  }

  release(): void {
    this.#isReleased = true;
    for (const call of this.#calls) call.release();
  }

  report(to: CallReporter, refusedWith?: string): void {
    for (const call of this.#calls) call.report(to, refusedWith);
  }
}

const [open, comma, close] = ["[", ",", "]"].map((each) => Buffer.from(each)) as [
  Buffer,
  Buffer,
  Buffer,
];

function piecesOf(answer: RpcAnswer): readonly Uint8Array[] {
  if (answer === undefined) return [];
  if (typeof answer === "string") return [Buffer.from(answer)];
  return answer instanceof Uint8Array ? [answer] : answer;
}
