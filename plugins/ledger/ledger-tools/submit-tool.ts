import {
  toolFailure,
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolResult,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { isHash } from "../ledger/decode/call-node.ts";
import { callMethod, decodeFailureOf, type Chain } from "./node.ts";
import { hexFault, hexSchema } from "./tool-defaults.ts";

interface SubmitInput {
  readonly extrinsic: string;
}

const undecodable = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "extrinsic: does not match the runtime of this chain",
);

/** A node may accept the extrinsic without answering, so the caller must check before retrying. */
const unknownOutcome = toolFailure(
  "GATEWAY_TOOL_EXECUTION_ERROR",
  "the node did not answer: the extrinsic may or may not be in its pool",
);

/**
 * Reasons why a transaction pool refuses an extrinsic, by the node's error code: polkadot-sdk,
 * substrate/client/rpc-api/src/author/error.rs. The node's own text is not used, because it may contain anything.
 */
const refusals: ReadonlyMap<unknown, string> = new Map([
  [1001, "it is not well-formed"],
  [1002, "it could not be verified"],
  [1010, "it is invalid: outdated nonce, wrong signature, unpayable fee, or the like"],
  [1011, "its validity could not be determined"],
  [1012, "it is banned for a while"],
  [1013, "it is in the pool already"],
  [1014, "its priority is too low to replace the one in the pool"],
  [1015, "it depends on itself"],
  [1016, "the pool is full"],
]);

export function submitTool(chain: Chain): Tool<never> {
  return {
    name: "ledger_submitExtrinsic",
    description:
      "Submits a signed extrinsic to the chain. The first call returns a summary and a confirmation token. Repeat the call with the token to submit the extrinsic.",
    inputSchema: {
      type: "object",
      additionalProperties: false,
      required: ["extrinsic"],
      properties: {
        extrinsic: hexSchema("The whole extrinsic, SCALE-encoded with its length prefix, as hex."),
      },
    },
    price: 10_000,
    capability: "ledger:write",
    write: true,
    annotations: {
      title: "Submit extrinsic",
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    },
    summarise: (input: SubmitInput, context) => summaryOf(chain, input, context),
    call: (input: SubmitInput, context) => submit(chain, input, context),
  };
}

async function summaryOf(
  { decoder }: Chain,
  { extrinsic }: SubmitInput,
  context: ToolContext,
): Promise<{ readonly ok: true; readonly summary: object } | ToolFailure> {
  const fault = hexFault("extrinsic", extrinsic);
  if (fault !== undefined) return fault;
  const read = await decoder.summary(Buffer.from(extrinsic.slice(2), "hex"), context);
  if (read.ok) return read;
  return read.reason === "undecodable" ? undecodable : decodeFailureOf(read);
}

async function submit(
  chain: Chain,
  { extrinsic }: SubmitInput,
  context: ToolContext,
): Promise<ToolResult> {
  const answer = await callMethod(chain, "author_submitExtrinsic", `["${extrinsic}"]`, context);
  if (answer.kind === "failed") return unknownOutcome;
  const answered = parseOrUndefined(answer.bytes.toString());
  if (answer.kind === "error") return refused(answered);
  return isHash(answered) ? { ok: true, value: { hash: answered } } : unknownOutcome;
}

function refused(error: unknown): ToolFailure {
  const why = isObject(error) ? refusals.get(error["code"]) : undefined;
  const message = `the node refused the extrinsic${why === undefined ? "" : `: ${why}`}`;
  return toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", message);
}
