/** Surface `network-models` (decisions.md section 8). Each request replaces all earlier overrides. */
import {
  defineSurface,
  refuse,
  type Exchange,
  type Reply,
  violationsSchema,
  type Operation,
} from "sluice-gateway/plugin";
import { modelList, type Networks, modelListSchema } from "sluice-gateway/services";
import { readOverrides, bodySchema } from "./read-overrides.ts";

const text = { type: "string" };

const operation: Operation = {
  summary: "Replace the overrides of a network's models",
  path: {
    type: "object",
    properties: { network: { description: "Name of a configured network.", ...text } },
  },
  body: { content: { "application/json": bodySchema }, required: true },
  answers: {
    200: {
      description: "The new list of models of the network.",
      content: { "application/json": modelListSchema },
    },
  },
  refusals: [
    {
      code: "GATEWAY_INVALID_PARAMS",
      description: "The body is not JSON, or it does not match its schema.",
      details: violationsSchema(1),
    },
    { code: "GATEWAY_NOT_FOUND", description: "The network does not exist." },
    { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The change could not be stored." },
  ],
};

/** decisions.md section 4 */
const bodyBytes = 1024 * 1024;

export default defineSurface({
  name: "network-models",
  description: "Replaces the operator's overrides of a network's model catalogue.",
  needs: { principal: "answer" },
  wants: { requestId: "answer" },
  uses: ["networks"],
  operation: () => operation,
  start(_, host) {
    const networks = host.use("networks");
    return {
      body: { bytes: bodyBytes, types: ["application/json"] },
      atomic: true,
      answer: (x) => answer(x, networks),
    };
  },
});

async function answer(x: Exchange, networks: Networks): Promise<Reply> {
  const principal = x.get("principal");
  if (principal.kind === "anonymous") return refuse("GATEWAY_UNAUTHORIZED");
  // Checked here as well, so that a route without `authorize` does not open the catalogue to every key.
  if (!principal.key.capabilities.has("platform:admin")) return refuse("GATEWAY_PERMISSION_DENIED");
  const { network = "" } = x.request.params;
  if (!networks.names.includes(network)) return refuse("GATEWAY_NOT_FOUND");
  const json = x.json();
  if (!json.ok) return refuse("GATEWAY_INVALID_PARAMS", { message: "the body is not valid JSON" });
  const read = readOverrides(json.value);
  if ("refused" in read) return read.refused;
  const by = { actor: principal.key.id, requestId: x.peek("requestId") ?? "" };
  const listed = await networks.override(network, read.models, by);
  if (listed === undefined) return refuse("GATEWAY_SERVICE_UNAVAILABLE");
  const headers = ["content-type", "application/json"];
  return { status: 200, headers, body: modelList(listed) };
}
