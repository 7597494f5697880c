/** The shapes in which clients read models: that of OpenAI, and that of Anthropic if they send its header. */
import type { Exchange, Reply } from "sluice-gateway/plugin";
import { modelJson, modelList, type ModelEntry } from "sluice-gateway/services";
import { errorReply } from "../completions/error-reply.ts";
import type { CompletionError } from "../completions/errors.ts";
import { renderError, requestIdHeader } from "../messages/errors.ts";

const json: readonly string[] = ["content-type", "application/json"];

/** True if the client reads the shape of Anthropic's API. */
export function isAnthropic(x: Exchange): boolean {
  return x.request.headers["anthropic-version"] !== undefined;
}

export function listReply(x: Exchange, models: readonly ModelEntry[]): Reply {
  if (!isAnthropic(x)) return { status: 200, headers: json, body: modelList(models) };
  const data = models.map(anthropicModel);
  const [first_id = null, last_id = null] = [models[0]?.modelId, models.at(-1)?.modelId];
  return anthropicReply(x, { data, has_more: false, first_id, last_id });
}

export function modelReply(x: Exchange, model: ModelEntry): Reply {
  return isAnthropic(x)
    ? anthropicReply(x, anthropicModel(model))
    : { status: 200, headers: json, body: modelJson(model) };
}

/** Returns the reply to an error in the shape that the client reads. */
export function errorOf(x: Exchange, error: CompletionError): Reply {
  return errorReply({ renderError: isAnthropic(x) ? renderError : renderChatError }, x, error);
}

function renderChatError({ status, code, message }: CompletionError): { readonly body: string } {
  const type = status === 503 ? "internal_error" : "invalid_request_error";
  return { body: JSON.stringify({ error: { message, type, code } }) };
}

function anthropicReply(x: Exchange, body: object): Reply {
  return { status: 200, headers: [...json, ...requestIdHeader(x)], body: JSON.stringify(body) };
}

function anthropicModel({ modelId, createdAt }: ModelEntry): object {
  const created_at = new Date(createdAt).toISOString();
  return { type: "model", id: modelId, display_name: modelId, created_at };
}
