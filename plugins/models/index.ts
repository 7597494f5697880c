/** Surface `models`: the models of the inference networks, in the shape that chat clients read. */
import {
  defineSurface,
  modelList,
  modelListSchema,
  refuse,
  type Exchange,
  type Networks,
  type Reply,
} from "sluice-gateway/plugin";

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

const networkInPath = {
  type: "object",
  properties: { network: { description: "List only models of this network.", type: "string" } },
};
const failure = {
  type: "object",
  properties: {
    error: {
      type: "object",
      properties: {
        message: { type: "string", examples: ["the models are not known yet"] },
        type: { const: "internal_error" },
        code: { const: "UPSTREAM_ERROR" },
      },
      required: ["message", "type", "code"],
    },
  },
  required: ["error"],
};

export default defineSurface({
  name: "models",
  description: "Lists the models of the inference networks with their prices.",
  operation: (_, { path }) => ({
    summary: "List the models",
    path: networkInPath,
    answers: {
      200: {
        description: "The models of the networks.",
        content: { "application/json": modelListSchema },
      },
      503: {
        description: "The status of the networks is not known yet.",
        content: { "application/json": failure },
        headers: {
          "Retry-After": {
            description: "Least number of seconds to wait before a retry.",
            schema: { type: "integer" },
          },
        },
      },
    },
    refusals: path.includes("{network}")
      ? [{ code: "GATEWAY_NOT_FOUND", description: "The network does not exist." }]
      : [],
  }),
  start: (_, { networks }) => ({ answer: (x) => answer(x, networks) }),
});

function answer(x: Exchange, networks: Networks): Reply {
  // The route's path may name the network: `/{network}/v1/models`.
  const { network } = x.request.params;
  if (network !== undefined && !networks.names.includes(network))
    return refuse("GATEWAY_NOT_FOUND");
  const models = networks.models(network);
  if (models.length === 0 && networks.unread(network)) return unavailable;
  return { status: 200, headers: json, body: modelList(models) };
}
