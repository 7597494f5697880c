/**
 * Confirmation of write tools by the client's user. In revision 2026-07-28 the first call is answered with a question
 * whose `requestState` is the confirmation token, and the client repeats the call with the user's answer. In a session,
 * the client is asked during the call.
 */
import type { Questions, ToolOutcome } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Params } from "./json-rpc.ts";

const requestKey = "confirm";
const maxShownChars = 2_000;

/** The user's answer in a repeated call. A client could forge it, so only the token authorizes the call. */
export type UserAnswer =
  | { readonly kind: "confirmed"; readonly token: string }
  | { readonly kind: "declined" }
  /** Dismissed without an answer, because some clients never show the question. The client then gets the token. */
  | { readonly kind: "cancelled" };

/** Undefined for a first call, or for one without an answer to the question. */
export function answerInRetry(params: Params): UserAnswer | undefined {
  const { inputResponses, requestState } = params;
  if (typeof requestState !== "string") return undefined;
  const kind = userAnswerIn(inputResponses);
  if (kind === undefined) return undefined;
  return kind === "confirmed" ? { kind, token: requestState } : { kind };
}

export function userAnswerIn(answers: unknown): UserAnswer["kind"] | undefined {
  const answer = isObject(answers) ? answers[requestKey] : undefined;
  if (!isObject(answer)) return undefined;
  const { action, content } = answer;
  if (action === "cancel") return "cancelled";
  if (action === "decline") return "declined";
  if (action !== "accept") return undefined;
  return isObject(content) && content["confirm"] === true ? "confirmed" : "declined";
}

/** An empty object means forms. */
export function canShowForms({ elicitation }: Params): boolean {
  if (!isObject(elicitation)) return false;
  return Object.keys(elicitation).length === 0 || isObject(elicitation["form"]);
}

/** `token`: used if the user accepts. Undefined if the outcome does not require confirmation. */
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

/** The text consists only of what the gateway has decoded, never of text from the caller. */
function messageOf(tool: string, summary: unknown): string {
  const lines = isObject(summary)
    ? Object.entries(summary).map(([name, value]) => `${name}: ${valueText(value)}`)
    : [];
  const text = [`Run ${tool}?`, ...lines].join("\n");
  return text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : text;
}

function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
