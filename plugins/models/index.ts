/** Surface `models`: the models of the inference networks, in the shape that chat clients read. */
import {
  defineSurface,
  refuse,
  type Exchange,
  type ModelEntry,
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

export default defineSurface({
  name: "models",
  description: "Lists the models of the inference networks with their prices.",
  start: (_, { networks }) => ({ answer: (x) => answer(x, networks) }),
});

function answer(x: Exchange, networks: Networks): Reply {
  // The route's path may name the network: `/{network}/v1/models`.
  const { network } = x.request.params;
  if (network !== undefined && !networks.names.includes(network))
    return refuse("GATEWAY_NOT_FOUND");
  const models = networks.models(network);
  if (models.length === 0 && networks.unread(network)) return unavailable;
  const body = JSON.stringify({ object: "list", data: models.map(shown) });
  return { status: 200, headers: json, body };
}

/** decisions.md section 8. */
function shown(model: ModelEntry): object {
  return {
    id: model.modelId,
    object: "model",
    created: Math.floor(model.createdAt / 1000),
    owned_by: model.ownedBy,
    network: model.network,
    active_workers: model.activeWorkers,
    pricing: {
      prompt_cu_milli: model.promptPriceCUMilli,
      completion_cu_milli: model.completionPriceCUMilli,
      cached_cu_milli: model.cachedPriceCUMilli,
    },
    evidence: model.evidence,
  };
}
