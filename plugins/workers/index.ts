/** Surface `workers`: how many workers serve each model, and how far their prices lie apart. */
import { defineSurface, type ModelEntry, type Networks, type Reply } from "sluice-gateway/plugin";

const headers: readonly string[] = ["content-type", "application/json"];

export default defineSurface({
  name: "workers",
  description: "Lists the active workers of each model with their price coefficients.",
  start: (_, { networks }) => ({ answer: () => answer(networks) }),
});

function answer(networks: Networks): Reply {
  const body = JSON.stringify({ object: "list", data: networks.models().map(shown) });
  return { status: 200, headers, body };
}

/** decisions.md section 8: the bands are null while no worker is active. */
function shown({ network, modelId, activeWorkers, coefficients }: ModelEntry): object {
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
