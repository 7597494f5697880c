/**
 * Surface `network-models`: lets an operator hide models of a network, list additional ones, and set their owner or
 * price (decisions.md section 8). Each request replaces all earlier overrides.
 */
import { defineSurface, refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import { modelList, type Networks } from "sluice-gateway/services";
import { readOverrides } from "./read-overrides.ts";
import { operation } from "./operation.ts";

/** decisions.md section 4. */
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
