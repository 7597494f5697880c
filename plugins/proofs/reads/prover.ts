import { readJsonRpc } from "sluice-gateway/plugin";
import type {
  Ledger,
  LedgerAnswer,
  ProvedAnswer,
  ProvedRpc,
  Prover,
  UnprovedCall,
} from "sluice-gateway/services";
import { modes, type Mode } from "../proofs/options.ts";
import { ProvedBatch } from "./proved-batch.ts";
import { proofText, type CallProof } from "./proof-member.ts";
import { provableRead } from "./provable-reads.ts";
import { notProved, prove, ProvedCall, type ProverDeps, type Wanted } from "./proved-call.ts";

/** decisions.md sections 5 and 14, as without proofs. */
const maxItems = 50;
const maxBatchBytes = { http: 32 * 1_048_576, webSocket: 4 * 1_048_576 };

/** `ownMode`: `upstreams.NAME.proof`. */
export function createProver(deps: ProverDeps, ownMode: Mode): Prover {
  return {
    prove({ wanted, ...call }) {
      const mode = modeOf(ownMode, wanted);
      if (mode === "off") return undefined;
      return proveBody(deps, mode, wanted, call);
    },
    call: ownMode === "off" ? undefined : (...call) => proveOwn(deps, ownMode, ...call),
    refusal(wanted) {
      return modeOf(ownMode, wanted) === "require"
        ? { code: "NOT_PROVED", error: notProved("subscriptions are not proved") }
        : undefined;
    },
  };
}

async function proveOwn(
  deps: ProverDeps,
  mode: Mode,
  ...[method, params, options]: Parameters<Ledger["call"]>
): Promise<ProvedAnswer> {
  const read = provableRead(method.name, params.toString());
  const proved = await prove(deps, { mode, member: false }, read);
  const isProved = typeof proved !== "string";
  const proof: CallProof = isProved ? proved.proof : { state: "none", reason: proved };
  deps.count(proof.state);
  const answer: LedgerAnswer = isProved
    ? { kind: "result", bytes: Buffer.from(proved.result) }
    : await deps.ledger.call(method, params, options);
  return { answer, proof: proofText(proof) };
}

function proveBody(
  deps: ProverDeps,
  mode: Mode | undefined,
  asked: string | undefined,
  { rpc, body, over = "http" }: Omit<UnprovedCall, "wanted">,
): ProvedRpc | undefined {
  const read = readJsonRpc(body, maxItems);
  const isReturn = asked === "return";
  if (read.kind !== "batch") {
    const member = isReturn ? "return" : over !== "http" && asked !== undefined;
    const item = read.kind === "single" ? read.item : other;
    return new ProvedCall(deps, { mode, member }, rpc, item.kind === "call" ? item : other);
  }
  const wanted: Wanted = { mode, member: isReturn ? "return" : asked !== undefined };
  const calls = read.items.flatMap((item) => {
    if (item.kind === "notification") return [];
    const isCall = item.kind === "call";
    const { method, params } = isCall ? item : { method: "", params: "" };
    // Without a method it is answered as invalid, which it is.
    const more = isCall
      ? `,"method":${JSON.stringify(method)}${params === "" ? "" : `,"params":${params}`}`
      : "";
    const text = `{"jsonrpc":"2.0","id":${item.id}${more}}`;
    const own = deps.ledger.rpc(Buffer.from(text), over);
    return [new ProvedCall(deps, wanted, own, isCall ? item : other)];
  });
  const maxBytes = over === "http" ? maxBatchBytes.http : maxBatchBytes.webSocket;
  return calls.length === 0 ? undefined : new ProvedBatch(calls, maxBytes);
}

const other = { kind: "other" } as const;

/** A client can ask for more than the upstream requires, but not for less. Undefined if `wanted` is no mode. */
function modeOf(required: Mode, wanted: string | undefined): Mode | undefined {
  if (wanted === undefined) return required;
  const mode = wanted === "return" ? "prefer" : modes.find((each) => each === wanted);
  return mode !== undefined && required === "require" ? required : mode;
}
