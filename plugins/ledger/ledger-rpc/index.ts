/** Surface `ledger-rpc`: the node's own JSON-RPC, whitelisted and metered. The ledger checks and answers the calls. */
import {
  defineSurface,
  type Awaitable,
  type CallReporter,
  type Exchange,
  type Memory,
  type Reply,
} from "sluice-gateway/plugin";
import type { Charge, LedgerRpc, ProvedRpc, RpcAnswer } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";
import { upstreamOption } from "../ledger/upstream-option.ts";
import { operation } from "./operation.ts";

interface Options {
  readonly upstream: string;
}

type Caller = CallReporter &
  Pick<Exchange, "clientLeft" | "facts" | "aborted" | "onAbort" | "dropBody">;

/** decisions.md section 4. */
const bodyBytes = 10 * 1024 * 1024;

const contentType: readonly string[] = ["content-type", "application/json"];
const noContent: Reply = { status: 204 };
const noBody = Buffer.alloc(0);

export default defineSurface<Options>({
  name: "ledger-rpc",
  description: "Passes JSON-RPC calls of whitelisted methods to the nodes of an upstream.",
  options: {
    type: "object",
    additionalProperties: false,
    required: ["upstream"],
    properties: { upstream: upstreamOption },
  },
  needs: { charge: "answer" },
  uses: ["ledger"],
  usesIfInstalled: ["proofs"],
  operation: () => operation,
  start({ upstream }, host) {
    const ledger = host.use("ledger").pool(upstream);
    const prover = host.use("proofs", { ifInstalled: true })?.prover(upstream);
    if (ledger === undefined) throw new Error(`there is no upstream named ${upstream}`);
    return {
      body: { bytes: bodyBytes, types: ["application/json"] },
      answer(x) {
        x.note("upstream", upstream);
        const body = x.body ?? noBody;
        const rpc = ledger.rpc(body);
        const proved = prover?.prove({
          rpc,
          body,
          wanted: x.request.headers["x-sluice-proof"]?.toString(),
        });
        return answer(proved ?? rpc, x.get("charge"), x, host.memory);
      },
    };
  },
});

/** Answers synchronously if everything is cached, so that a cached answer costs no promise. */
function answer(
  rpc: LedgerRpc | ProvedRpc,
  charge: Charge,
  caller: Caller,
  memory: Memory,
): Awaitable<Reply> {
  if (rpc.costMilliCu === 0) return run(rpc, charge, caller, memory);
  return andThen(charge.reserve(rpc.costMilliCu), (refusal) => {
    if (refusal === undefined) return run(rpc, charge, caller, memory);
    rpc.report(caller, refusal.code);
    return refusal;
  });
}

function run(
  rpc: LedgerRpc | ProvedRpc,
  charge: Charge,
  caller: Caller,
  memory: Memory,
): Awaitable<Reply> {
  const running = rpc.run(caller, memory);
  if (running instanceof Promise) {
    const waiting = new WaitingCall(rpc, caller);
    if (caller.aborted) waiting.aborted();
    else caller.onAbort = waiting;
  }
  return andThen(running, (answered) => replyWith(answered, rpc, charge, caller));
}

/** A call that waits for a node. When its client has left, or it makes room for others, it holds nothing any more. */
class WaitingCall {
  readonly #rpc: LedgerRpc;
  readonly #caller: Caller;

  constructor(rpc: LedgerRpc, caller: Caller) {
    this.#rpc = rpc;
    this.#caller = caller;
  }

  aborted(): void {
    this.#rpc.release();
    this.#caller.dropBody();
  }
}

/** The call is charged even if the client has disconnected, because the node has done the work. */
function replyWith(
  answered: RpcAnswer,
  rpc: LedgerRpc | ProvedRpc,
  charge: Charge,
  caller: CallReporter,
): Reply {
  rpc.report(caller);
  if (rpc.costMilliCu > 0) charge.settle(rpc.lines);
  if (answered === undefined) return noContent;
  const isWhole = typeof answered === "string" || answered instanceof Uint8Array;
  const headers = "proof" in rpc ? [...contentType, "x-sluice-proof", rpc.proof] : contentType;
  const content = isWhole ? { body: answered } : { pieces: answered };
  if (rpc.failure === undefined) return { status: 200, headers, ...content };
  const outcome = rpc.failure === "timeout" ? "timedOut" : "upstreamFailed";
  return { status: 200, headers, ...content, outcome };
}
