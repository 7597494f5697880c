/**
 * Surface `models`: lists the models of the inference networks in the format that chat clients read. On a route that
 * ends in `*` it shows one model, whose id is the rest of the path.
 */
import {
  defineSurface,
  refuse,
  type Exchange,
  type JsonSchema,
  type Reply,
} from "sluice-gateway/plugin";
import {
  modelListSchema,
  modelSchema,
  type ModelEntry,
  type Networks,
  modelJson,
  modelList,
} from "sluice-gateway/services";
import { completionError, notFoundMessage, type CompletionError } from "../completions/errors.ts";
import { chatApi } from "../chat/api.ts";
import { chatErrorOf, retryAfter } from "../completions/operation.ts";
import { renderRefusal, renderError, requestIdHeader } from "../messages/errors.ts";
import { isUnknownNetwork, networkInPath, networkRefusals } from "../network-in-path.ts";
import { errorReply } from "../completions/error-reply.ts";

const json: readonly string[] = ["content-type", "application/json"];

const unavailable = completionError("UPSTREAM_ERROR", { message: "the models are not known yet" });

const notFound = (message: string): CompletionError =>
  completionError("MODEL_NOT_FOUND", { message });

function failure({ status, code, message }: CompletionError): JsonSchema {
  const type = status === 503 ? "internal_error" : "invalid_request_error";
  return chatErrorOf(type, [code], message);
}

const notKnown = {
  description: "The status of the networks is not known yet.",
  content: { "application/json": failure(unavailable) },
  headers: retryAfter,
};

const listAnswers = {
  200: {
    description: "The models of the networks.",
    content: { "application/json": modelListSchema },
  },
  503: notKnown,
};

const oneAnswers = {
  200: { description: "The model with this id.", content: { "application/json": modelSchema } },
  404: {
    description: "No network lists the model.",
    content: { "application/json": failure(notFound(notFoundMessage("acme/other", undefined))) },
  },
  503: notKnown,
};

const restIsId =
  "The rest of the path is the id of the model. Its slashes may be written as / or %2F.";
const otherShape =
  "With the header `anthropic-version`, answers and errors have the shape of Anthropic's API.";

export default defineSurface({
  name: "models",
  description: "Lists the models of the inference networks with their prices, or shows one model.",
  wants: { requestId: "answer" },
  uses: ["networks"],
  operation: (_, { path }) => ({
    summary: describesOneModel(path) ? "Show one model" : "List the models",
    description: describesOneModel(path) ? `${restIsId} ${otherShape}` : otherShape,
    path: networkInPath,
    answers: describesOneModel(path) ? oneAnswers : listAnswers,
    refusals: networkRefusals(path),
  }),
  start(_, host) {
    const networks = host.use("networks");
    return {
      answer: (x) => answer(x, networks),
      renderRefusal: (refused, x) => (isAnthropic(x) ? renderRefusal(refused, x) : refused),
    };
  },
});

function answer(x: Exchange, networks: Networks): Reply {
  const { network } = x.request.params;
  if (isUnknownNetwork(network, networks)) return refuse("GATEWAY_NOT_FOUND");
  const models = networks.models(network);
  if (describesOneModel(x.route.path)) return answerOne(x, models, networks.unread(network));
  if (models.length === 0 && networks.unread(network)) return errorOf(x, unavailable);
  return listReply(x, network === undefined ? once(models) : models);
}

function describesOneModel(routePath: string): boolean {
  return routePath.endsWith("/*");
}

/** Lists each model once, because clients choose a model by its id alone. */
function once(models: readonly ModelEntry[]): ModelEntry[] {
  const byId = Map.groupBy(models, ({ modelId }) => modelId);
  return [...byId.values()].flatMap((entries) => serving(entries) ?? []);
}

/** Returns the entry of the first network with an active worker, which serves the model. */
function serving(entries: readonly ModelEntry[]): ModelEntry | undefined {
  return entries.find(({ activeWorkers }) => activeWorkers > 0) ?? entries[0];
}

function answerOne(x: Exchange, models: readonly ModelEntry[], isUnread: boolean): Reply {
  const id = restOf(x);
  const entries = models.filter(({ modelId }) => modelId === id);
  const entry = serving(entries);
  if (entry !== undefined) return modelReply(x, entry);
  if (isUnread) return errorOf(x, unavailable);
  const { network } = x.request.params;
  return errorOf(x, notFound(notFoundMessage(id ?? "", network)));
}

/** Returns the part of the path that matches the `*` of the route. Undefined if it cannot be decoded. */
function restOf({ route, request }: Exchange): string | undefined {
  const before = route.path.split("/").length - 1;
  try {
    return decodeURIComponent(request.path.split("/").slice(before).join("/"));
  } catch {
    return undefined;
  }
}

function isAnthropic(x: Exchange): boolean {
  return x.request.headers["anthropic-version"] !== undefined;
}

function listReply(x: Exchange, models: readonly ModelEntry[]): Reply {
  if (!isAnthropic(x)) return { status: 200, headers: json, body: modelList(models) };
  const data = models.map(anthropicModel);
  const [first_id = null, last_id = null] = [models[0]?.modelId, models.at(-1)?.modelId];
  return anthropicReply(x, { data, has_more: false, first_id, last_id });
}

function modelReply(x: Exchange, model: ModelEntry): Reply {
  return isAnthropic(x)
    ? anthropicReply(x, anthropicModel(model))
    : { status: 200, headers: json, body: modelJson(model) };
}

function errorOf(x: Exchange, error: CompletionError): Reply {
  return errorReply(isAnthropic(x) ? { renderError } : chatApi, x, error);
}

function anthropicReply(x: Exchange, body: object): Reply {
  return { status: 200, headers: [...json, ...requestIdHeader(x)], body: JSON.stringify(body) };
}

function anthropicModel({ modelId, createdAt }: ModelEntry): object {
  const created_at = new Date(createdAt).toISOString();
  return { type: "model", id: modelId, display_name: modelId, created_at };
}
