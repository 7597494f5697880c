/**
 * Questions of a tool or a prompt to the client of a stateless call. The call ends with the questions, and the client
 * repeats it with the answers and the sealed state of the tool or prompt.
 */
import type { Clock, Seal } from "sluice-gateway/plugin";
import type { Dialogue, Questions } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { RpcFailure } from "../json-rpc-texts.ts";
import { codes, invalidParams, type Params } from "./json-rpc.ts";
import { metaKeys } from "../mcp-revisions.ts";

const purpose = "mcp dialogue";
/** Lifetime of a state: the same as for a confirmation (decisions.md section 6). */
const lifetimeMs = 5 * 60_000;

const capabilityOf: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

export interface StatelessCall {
  readonly keyId: string;
  readonly method: string;
  readonly name: string;
}

export interface StatelessDialogues {
  /** Returns a failure if the `requestState` is not valid for this call or has expired. */
  read(params: Params, call: StatelessCall): { readonly dialogue: Dialogue } | RpcFailure;
  /** Returns the members of the result, or a failure if the client lacks a capability for the questions. */
  ask(questions: Questions, dialogue: Dialogue, call: StatelessCall): string | RpcFailure;
}

interface Ticket extends StatelessCall {
  readonly state: unknown;
}

export function createStatelessDialogues(parts: {
  readonly seal: Seal;
  readonly clock: Clock;
}): StatelessDialogues {
  const { seal, clock } = parts;
  const stateOf = (text: string, call: StatelessCall): { readonly state: unknown } | undefined => {
    const opened = seal.open(purpose, text);
    if (opened === undefined || opened.expiresAt <= clock.now()) return undefined;
    // Only `ask` seals values for this purpose.
    const ticket = opened.value as Ticket;
    const isSameCall =
      ticket.keyId === call.keyId && ticket.method === call.method && ticket.name === call.name;
    return isSameCall ? ticket : undefined;
  };
  return {
    read(params, call) {
      const { inputResponses, requestState } = params;
      const answers = isObject(inputResponses) ? inputResponses : {};
      const capabilities = clientCapabilities(params);
      if (requestState === undefined) {
        return { dialogue: { capabilities, answers, state: undefined } };
      }
      const opened = typeof requestState === "string" ? stateOf(requestState, call) : undefined;
      if (opened === undefined) return invalidParams("requestState is not valid for this call");
      return { dialogue: { capabilities, answers, state: opened.state } };
    },
    ask({ requests, state }, { capabilities }, call) {
      const missing = missingCapabilities(requests, capabilities);
      if (missing.length > 0) return missingCapabilityFailure(missing);
      const requestsMember = `"inputRequests":${JSON.stringify(requests)}`;
      if (state === undefined) return requestsMember;
      const sealed = seal.seal(purpose, { ...call, state }, clock.now() + lifetimeMs);
      return `${requestsMember},"requestState":"${sealed}"`;
    },
  };
}

export function missingCapabilities(
  requests: Questions["requests"],
  capabilities: Dialogue["capabilities"],
): string[] {
  return Object.values(requests)
    .map(({ method }) => capabilityOf[method] ?? method)
    .filter((name) => !(name in capabilities));
}

export function clientCapabilities(params: Params): Params {
  const meta = params["_meta"];
  const declared = isObject(meta) ? meta[metaKeys.capabilities] : undefined;
  return isObject(declared) ? declared : {};
}

function missingCapabilityFailure(missing: readonly string[]): RpcFailure {
  const requiredCapabilities = Object.fromEntries(missing.map((name) => [name, {}]));
  return {
    code: codes.missingCapability,
    message: "the call requires capabilities that the client did not declare",
    data: { requiredCapabilities },
  };
}
