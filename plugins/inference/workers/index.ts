import { defineSurface, refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { ModelEntry, Networks } from "sluice-gateway/services";
import { isUnknownNetwork, networkInPath, networkRefusals } from "../network-in-path.ts";

const headers: readonly string[] = ["content-type", "application/json"];

const coefficient = { type: ["integer", "null"], minimum: 0, examples: [1000] };
const listing = {
  type: "object",
  properties: {
    object: { const: "list" },
    data: {
      type: "array",
      items: {
        type: "object",
        properties: {
          network: { type: "string" },
          model_id: { type: "string" },
          active_workers: { type: "integer", minimum: 0 },
          price_coefficient: {
            description:
              "Lowest, median and highest coefficient of the active workers, in thousandths of the price of the network; null if no worker is active.",
            type: "object",
            properties: { base: coefficient, standard: coefficient, priority: coefficient },
            required: ["base", "standard", "priority"],
          },
        },
        required: ["network", "model_id", "active_workers", "price_coefficient"],
      },
    },
  },
  required: ["object", "data"],
};

export default defineSurface({
  name: "workers",
  description: "Lists the number of active workers per model, and their price coefficients.",
  uses: ["networks"],
  operation: (_, { path }) => ({
    summary: "List the workers of each model",
    path: networkInPath,
    answers: {
      200: { description: "The workers of each model.", content: { "application/json": listing } },
    },
    refusals: [
      ...networkRefusals(path),
      {
        code: "GATEWAY_SERVICE_UNAVAILABLE",
        description: "The status of the networks is not known yet.",
      },
    ],
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
  if (models.length === 0 && networks.unread(network)) return refuse("GATEWAY_SERVICE_UNAVAILABLE");
  const body = JSON.stringify({ object: "list", data: models.map(workersJson) });
  return { status: 200, headers, body };
}

/** The bands are null while no worker is active (decisions.md section 8). */
function workersJson({ network, modelId, activeWorkers, coefficients }: ModelEntry): object {
  return {
    network,
    model_id: modelId,
    active_workers: activeWorkers,
    price_coefficient: {
      base: coefficients?.base ?? null,
      standard: coefficients?.standard ?? null,
      priority: coefficients?.priority ?? null,
    },
  };
}
