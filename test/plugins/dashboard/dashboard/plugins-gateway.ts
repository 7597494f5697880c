/** A gateway with third-party plugins, for tests of the view Plugins. */
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import type { Clock } from "../../../../src/plugin.ts";
import { thirdParty, writeThirdParty } from "../../../third-party-plugins.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans:
  enterprise: { rps: 1000, includedCu: 1000, overageUsdPerCu: none }
plugins: ${thirdParty}
tools: [acme-dice, platform-tools]
lists:
  edge: [request-id, authenticate]
routes:
  - { path: /rpc, methods: [POST], run: [{ use: edge }, { authorize: { require: key } }, meter], to: tool-rpc }
  - { path: /plugins, methods: [GET], to: acme-plugins }
`;

/** The gateway's first key has `platform:admin`. */
export function startWithPlugins(clock?: Clock): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    account: { capabilities: ["platform:admin"] },
    prepare: writeThirdParty,
    ...(clock !== undefined && { clock }),
  });
}

export async function callTool({ url, key }: TestGateway, tool: string): Promise<void> {
  const call = { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool, params: {} } };
  const response = await fetch(`${url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(call),
  });
  await response.arrayBuffer();
}
