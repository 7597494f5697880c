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
  modelJson,
  modelList,
  modelListSchema,
  modelSchema,
  type ModelEntry,
  type Networks,
} from "sluice-gateway/services";
import { notFoundMessage } from "../model-not-found.ts";
import { isUnknownNetwork, networkInPath, networkRefusals } from "../network-in-path.ts";

const json: readonly string[] = ["content-type", "application/json"];
const unavailable: Reply = {
  status: 503,
  // gateway.md, "Retry-After values".
  headers: [...json, "retry-after", "5"],
  body: JSON.stringify({
    error: {
      message: "the models are not known yet",
      type: "internal_error",
      code: "UPSTREAM_ERROR",
    },
  }),
  code: "UPSTREAM_ERROR",
};

const notFound = (message: string): Reply => ({
  status: 404,
  headers: json,
  body: JSON.stringify({
    error: {
      message,
      type: "invalid_request_error",
      code: "MODEL_NOT_FOUND",
    },
  }),
  code: "MODEL_NOT_FOUND",
});

function failure({ body }: Reply): JsonSchema {
  // Only the replies above are passed, and their bodies have this shape.
  const { error } = JSON.parse(String(body)) as {
    error: { message: string; type: string; code: string };
  };
  return {
    type: "object",
    properties: {
      error: {
        type: "object",
        properties: {
          message: { type: "string", examples: [error.message] },
          type: { const: error.type },
          code: { const: error.code },
        },
        required: ["message", "type", "code"],
      },
    },
    required: ["error"],
  };
}

const notKnown = {
  description: "The status of the networks is not known yet.",
  content: { "application/json": failure(unavailable) },
  headers: {
    "Retry-After": {
      description: "Minimum number of seconds to wait before a retry.",
      schema: { type: "integer" },
    },
  },
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

export default defineSurface({
  name: "models",
  description: "Lists the models of the inference networks with their prices, or shows one model.",
  uses: ["networks"],
  operation: (_, { path }) => ({
    summary: describesOneModel(path) ? "Show one model" : "List the models",
    ...(describesOneModel(path) && {
      description:
        "The rest of the path is the id of the model. Its slashes may be written as / or %2F.",
    }),
    path: networkInPath,
    answers: describesOneModel(path) ? oneAnswers : listAnswers,
    refusals: networkRefusals(path),
  }),
  start(_, host) {
    const networks = host.use("networks");
    return { answer: (x) => answer(x, networks) };
  },
});

function answer(x: Exchange, networks: Networks): Reply {
  const { network } = x.request.params;
  if (isUnknownNetwork(network, networks)) return refuse("GATEWAY_NOT_FOUND");
  const models = networks.models(network);
  if (describesOneModel(x.route.path)) return answerOne(x, models, networks.unread(network));
  if (models.length === 0 && networks.unread(network)) return unavailable;
  return {
    status: 200,
    headers: json,
    body: modelList(network === undefined ? once(models) : models),
  };
}

function describesOneModel(routePath: string): boolean {
  return routePath.endsWith("/*");
}

/** Returns each model once, because clients choose a model by its id alone. */
function once(models: readonly ModelEntry[]): ModelEntry[] {
  const byId = Map.groupBy(models, ({ modelId }) => modelId);
  return [...byId.values()].flatMap((entries) => serving(entries) ?? []);
}

/** Returns the entry of the network that serves the model: the first one with an active worker. */
function serving(entries: readonly ModelEntry[]): ModelEntry | undefined {
  return entries.find(({ activeWorkers }) => activeWorkers > 0) ?? entries[0];
}

/** Answers one model. */
function answerOne(x: Exchange, models: readonly ModelEntry[], isUnread: boolean): Reply {
  const id = restOf(x);
  const entries = models.filter(({ modelId }) => modelId === id);
  const entry = serving(entries);
  if (entry !== undefined) return { status: 200, headers: json, body: modelJson(entry) };
  if (isUnread) return unavailable;
  const { network } = x.request.params;
  return notFound(notFoundMessage(id ?? "", network));
}

/** Returns the part of the path that matches the `*` of the route, decoded. Undefined if it cannot be decoded. */
function restOf({ route, request }: Exchange): string | undefined {
  const before = route.path.split("/").length - 1;
  try {
    return decodeURIComponent(request.path.split("/").slice(before).join("/"));
  } catch {
    return undefined;
  }
}
