/** Calls the node for a tool. Failures have fixed messages, which never contain text from the node. */
import {
  toolFailure,
  type DecodeFailure,
  type Decoder,
  type Ledger,
  type LedgerAnswer,
  type LedgerCalls,
  type LedgerFailure,
  type LedgerMethod,
  type ToolContext,
  type ToolFailure,
} from "sluice-gateway/services";
import { parseOrUndefined } from "sluice-gateway/internal/toolkit";

export interface Chain {
  readonly ledger: LedgerCalls & Pick<Ledger, "methods">;
  readonly decoder: Decoder;
}

const executionError = (message: string): ToolFailure =>
  toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", message);

const nodeError = executionError("the node answered with an error");
const unreachable = executionError("no node answered");
const disagreement = executionError("the nodes gave different answers");
const timedOut = executionError("the node did not answer in time");
const undecodable = executionError("the node's answer does not match its metadata");
const busy = toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "too many blocks are being decoded");

export const unreadableAnswer = executionError("the node's answer could not be read");
export const unknownBlock = toolFailure("GATEWAY_NOT_FOUND", "there is no such block");
const prunedState = toolFailure("GATEWAY_NOT_FOUND", "no node keeps the state of that block");
const wrongAccount = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "address: the account ids of this chain have a different length",
);

/** Calls any known method, even if it is not on the whitelist. `params`: JSON text, or an empty string for none. */
export function callMethod(
  { ledger }: Chain,
  method: string,
  params: string,
  context: ToolContext,
): LedgerAnswer | Promise<LedgerAnswer> {
  return callListedMethod(ledger, ledger.internal(method), params, context);
}

export function callListedMethod(
  ledger: Chain["ledger"],
  method: LedgerMethod,
  params: string,
  { signal, principal }: ToolContext,
): LedgerAnswer | Promise<LedgerAnswer> {
  return ledger.call(method, Buffer.from(params), { signal, caller: principal.workspace.id });
}

type NoResult = Exclude<LedgerAnswer, { kind: "result" }>;

export function failureOf(answer: NoResult): ToolFailure {
  if (answer.kind === "error") return nodeError;
  return { ...failures[answer.reason], upstreamFailure: answer.cause };
}

const failures: Readonly<Record<LedgerFailure, ToolFailure>> = {
  unreachable,
  timeout: timedOut,
  // The signal of a tool is aborted when the call times out.
  aborted: timedOut,
  garbage: unreadableAnswer,
  disagreement,
};

const decodeFailures: Readonly<Record<DecodeFailure["reason"], ToolFailure>> = {
  unknownBlock,
  wrongAccount,
  undecodable,
  unreachable,
  timeout: timedOut,
  aborted: timedOut,
  busy,
};

export function decodeFailureOf({ reason }: DecodeFailure, block?: "known"): ToolFailure {
  return reason === "unknownBlock" && block === "known" ? prunedState : decodeFailures[reason];
}

/** Called for small results only. The value is undefined if the result is not JSON. */
export async function callForValue(
  chain: Chain,
  method: string,
  params: string,
  context: ToolContext,
): Promise<{ readonly ok: true; readonly value: unknown } | ToolFailure> {
  const answer = await callMethod(chain, method, params, context);
  if (answer.kind !== "result") return failureOf(answer);
  return { ok: true, value: parseOrUndefined(answer.bytes.toString()) };
}
