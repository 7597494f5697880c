/**
 * Confirmation of write tools by the client's user. In revision 2026-07-28 the first call is answered with a question
 * whose `requestState` is the confirmation token, and the client repeats the call with the user's answer; in a session
 * the client is asked in the middle of the call.
 */
import type { Questions, ToolOutcome } from "sluice-gateway/plugin";
import { isObject, type Params } from "./json-rpc.ts";

const requestKey = "confirm";
const shownCharacters = 2_000;

/** What a repeated call says. Whoever sends it may have made it up: only the token decides. */
export type UserAnswer =
  | { readonly kind: "confirmed"; readonly token: string }
  | { readonly kind: "declined" }
  /** Put away without an answer: some clients never show the question. The token is the other way. */
  | { readonly kind: "cancelled" };

/** Undefined: a first call, or one without an answer to the question. */
export function answerInRetry(params: Params): UserAnswer | undefined {
  const { inputResponses, requestState } = params;
  if (typeof requestState !== "string") return undefined;
  const kind = userAnswerIn(inputResponses);
  if (kind === undefined) return undefined;
  return kind === "confirmed" ? { kind, token: requestState } : { kind };
}

/** What the answer to the question says; undefined: nothing. */
export function userAnswerIn(answers: unknown): UserAnswer["kind"] | undefined {
  const answer = isObject(answers) ? answers[requestKey] : undefined;
  if (!isObject(answer)) return undefined;
  const { action, content } = answer;
  if (action === "cancel") return "cancelled";
  if (action === "decline") return "declined";
  if (action !== "accept") return undefined;
  return isObject(content) && content["confirm"] === true ? "confirmed" : "declined";
}

/** Whether a client of these capabilities can show a form. An empty object means forms. */
export function canShowForms({ elicitation }: Params): boolean {
  if (!isObject(elicitation)) return false;
  return Object.keys(elicitation).length === 0 || isObject(elicitation["form"]);
}

/**
 * The question and the token that an accepting answer stands for; undefined when the outcome asks for no confirmation.
 */
export function confirmationQuestion(
  outcome: ToolOutcome,
): (Pick<Questions, "requests"> & { readonly token: string }) | undefined {
  if (outcome.ok || outcome.code !== "GATEWAY_CONFIRMATION_REQUIRED") return undefined;
  const { confirmation_token: token, summary } = outcome.details ?? {};
  const question = {
    method: "elicitation/create",
    params: {
      mode: "form",
      message: messageOf(outcome.tool, summary),
      requestedSchema: {
        type: "object",
        properties: {
          confirm: { type: "boolean", title: "Confirm", description: "Whether to run this call." },
        },
        required: ["confirm"],
      },
    },
  };
  return { requests: { [requestKey]: question }, token: String(token) };
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
