/** A gateway with `/rpc`, discovery and the tools of `tools-plugin.ts`, and a client that sends raw HTTP to it. */
import { join } from "node:path";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../plugins/contracts/testing.ts";
import { ask, type Answer, type Sent } from "./ask.ts";

export const toolNames = [
  "echo",
  "foreign",
  "raw",
  "reserved",
  "throws",
  "cycles",
  "fails",
  "lost",
  "invalid",
  "away",
  "large",
  "hangs",
  "write",
] as const;

export function pipelineOf(tools: string): string {
  const plugin = JSON.stringify(join(import.meta.dirname, "tools-plugin.ts"));
  return `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000000, includedCu: 499000000 } }
plugins: { tools-plugin: ${plugin} }
tools: [${tools}]
lists:
  edge: [request-id, { access-log: { file: access.log } }, agent-headers, authenticate]
  agents: [{ use: edge }, rate-limit, { authorize: { require: key } }, meter]
routes:
  - { path: /.well-known/mcp, methods: [GET], run: [{ use: edge }], to: discovery }
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: mcp }
`;
}

export interface ToolsGateway extends TestGateway {
  readonly clock: ManualClock;
}

/** Its clock does not advance by itself: no bucket refills, and a tool that hangs waits for the test. */
export async function startToolsGateway(
  options: Partial<TestGatewayOptions> = {},
): Promise<ToolsGateway> {
  const clock = manualClock();
  const pipeline = pipelineOf("tools-plugin, platform-tools, gateway-batch");
  return Object.assign(await startTestGateway({ pipeline, clock, ...options }), { clock });
}

interface ToolsRequest extends Sent {
  readonly path?: string;
}

/** Sends a POST to `/rpc` by default. `key`: that of the gateway by default; null to send none. */
export function send(
  gateway: TestGateway,
  body: string | Buffer | undefined,
  { path = "/rpc", ...sent }: ToolsRequest = {},
): Promise<Answer> {
  return ask(gateway.url + path, { method: "POST", key: gateway.key, body, ...sent });
}

/** Returns the text of a `tools.call`; `id` is JSON text, empty for a notification. */
export function call(tool: string, params: unknown = {}, id = "1"): string {
  const identified = id === "" ? "" : `"id":${id},`;
  const inner = JSON.stringify({ tool, params });
  return `{"jsonrpc":"2.0",${identified}"method":"tools.call","params":${inner}}`;
}
