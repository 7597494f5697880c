/**
 * Questions of a tool or a prompt to the client of a stateless call: the call ends with them, and begins again with
 * their answers. What the asker wants to remember travels with the client, sealed.
 */
import type { Clock, Dialogue, Questions, Seal } from "sluice-gateway/plugin";
import { codes, invalidParams, isObject, type Params, type RpcFailure } from "./json-rpc.ts";
import { metaKeys } from "./revisions.ts";

const purpose = "mcp dialogue";
/** As long as a confirmation: decisions.md section 6. */
const lifetimeMs = 5 * 60_000;

/** Which capability of the client a question needs. */
const capabilityOf: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** Whose call a state belongs to. */
export interface Asker {
  readonly keyId: string;
  readonly method: string;
  readonly name: string;
}

export interface Dialogues {
  /** What the client says; a failure when its `requestState` is not one of ours, for this call, and fresh. */
  read(params: Params, asker: Asker): { readonly dialogue: Dialogue } | RpcFailure;
  /** The result that asks: members without the frame; a failure when the client cannot be asked that. */
  ask(questions: Questions, dialogue: Dialogue, asker: Asker): string | RpcFailure;
}

interface Ticket extends Asker {
  readonly state: unknown;
}

export function createDialogues(parts: { readonly seal: Seal; readonly clock: Clock }): Dialogues {
  const { seal, clock } = parts;
  const stateOf = (text: string, asker: Asker): { readonly state: unknown } | undefined => {
    const opened = seal.open(purpose, text);
    if (opened === undefined || opened.expiresAt <= clock.now()) return undefined;
    // What is sealed for this purpose was made below.
    const ticket = opened.value as Ticket;
    const isHis =
      ticket.keyId === asker.keyId && ticket.method === asker.method && ticket.name === asker.name;
    return isHis ? ticket : undefined;
  };
  return {
    read(params, asker) {
      const { inputResponses, requestState } = params;
      const answers = isObject(inputResponses) ? inputResponses : {};
      const capabilities = clientCapabilities(params);
      if (requestState === undefined) {
        return { dialogue: { capabilities, answers, state: undefined } };
      }
      const opened = typeof requestState === "string" ? stateOf(requestState, asker) : undefined;
      if (opened === undefined) return invalidParams("requestState is not valid for this call");
      return { dialogue: { capabilities, answers, state: opened.state } };
    },
    ask({ requests, state }, { capabilities }, asker) {
      const missing = missingCapabilities(requests, capabilities);
      if (missing.length > 0) return lacks(missing);
      const asked = `"inputRequests":${JSON.stringify(requests)}`;
      if (state === undefined) return asked;
      const sealed = seal.seal(purpose, { ...asker, state }, clock.now() + lifetimeMs);
      return `${asked},"requestState":"${sealed}"`;
    },
  };
}

/** Those that the questions need and the client did not declare. */
export function missingCapabilities(
  requests: Questions["requests"],
  capabilities: Dialogue["capabilities"],
): string[] {
  return Object.values(requests)
    .map(({ method }) => capabilityOf[method] ?? method)
    .filter((name) => !(name in capabilities));
}

/** What the client of a stateless request says it can do. */
export function clientCapabilities(params: Params): Params {
  const meta = params["_meta"];
  const declared = isObject(meta) ? meta[metaKeys.capabilities] : undefined;
  return isObject(declared) ? declared : {};
}

function lacks(missing: readonly string[]): RpcFailure {
  const requiredCapabilities = Object.fromEntries(missing.map((name) => [name, {}]));
  return {
    code: codes.missingCapability,
    message: "the call requires capabilities that the client did not declare",
    data: { requiredCapabilities },
  };
}
