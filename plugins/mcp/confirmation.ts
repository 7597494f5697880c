/**
 * Confirmation of write tools by the client's user (revision 2026-07-28): the first call is answered with a question
 * whose `requestState` is the confirmation token, the client repeats the call with the user's answer.
 */
import type { ToolOutcome } from "sluice-gateway/plugin";
import { clientCapabilities } from "./dialogue.ts";
import { isObject, type Params } from "./json-rpc.ts";

const requestKey = "confirm";
const shownCharacters = 2_000;

/** What a repeated call says. Whoever sends it may have made it up: only the token decides. */
export type Said =
  | { readonly kind: "confirmed"; readonly token: string }
  | { readonly kind: "declined" }
  /** Put away without an answer: some clients never show the question. The token is the other way. */
  | { readonly kind: "cancelled" };

/** Undefined: a first call, or one without an answer to the question. */
export function askedAgain(params: Params): Said | undefined {
  const { inputResponses, requestState } = params;
  if (typeof requestState !== "string" || !isObject(inputResponses)) return undefined;
  const answer = inputResponses[requestKey];
  if (!isObject(answer)) return undefined;
  const { action, content } = answer;
  if (action === "cancel") return { kind: "cancelled" };
  if (action === "decline") return { kind: "declined" };
  if (action !== "accept") return undefined;
  const yes = isObject(content) && content["confirm"] === true;
  return yes ? { kind: "confirmed", token: requestState } : { kind: "declined" };
}

/** Whether the client says that it can show a form. An empty object means forms. */
export function takesForms(params: Params): boolean {
  const { elicitation } = clientCapabilities(params);
  if (!isObject(elicitation)) return false;
  return Object.keys(elicitation).length === 0 || isObject(elicitation["form"]);
}

/** The question, as members of a result; undefined when the outcome does not ask for confirmation. */
export function confirmationQuestion(outcome: ToolOutcome): string | undefined {
  if (outcome.ok || outcome.code !== "GATEWAY_CONFIRMATION_REQUIRED") return undefined;
  const { confirmation_token: requestState, summary } = outcome.details ?? {};
  const question = {
    method: "elicitation/create",
    params: {
      mode: "form",
      message: messageOf(outcome.tool, summary),
      requestedSchema: {
        type: "object",
        properties: {
          confirm: { type: "boolean", title: "Confirm", description: "Go ahead with this call." },
        },
        required: ["confirm"],
      },
    },
  };
  const requests = JSON.stringify({ [requestKey]: question });
  return `"inputRequests":${requests},"requestState":${JSON.stringify(requestState)}`;
}

/** Written by the gateway from what it decoded itself, never from the caller's words. */
function messageOf(tool: string, summary: unknown): string {
  const lines = isObject(summary)
    ? Object.entries(summary).map(([name, value]) => `${name}: ${shown(value)}`)
    : [];
  const text = [`Run ${tool}?`, ...lines].join("\n");
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
