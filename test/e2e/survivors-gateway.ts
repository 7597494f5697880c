/**
 * A gateway in its own process, whose collections of young objects can be measured: it collects them at each message of
 * its parent. Its argument is the URL of its backend.
 */
import { join } from "node:path";
import { startTestGateway } from "../../plugins/contracts/testing.ts";

const backend = process.argv[2] ?? "";
const tools = JSON.stringify(join(import.meta.dirname, "../../bench/load/mcp-tools.ts"));

const gateway = await startTestGateway({
  strict: false,
  env: { LEDGER_RPC_URL: backend },
  pipeline: `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000000, includedCu: 9000000000 } }
plugins: { mcp-tools: ${tools} }
tools: [mcp-tools]
upstreams:
  ledger: { urls: "\${LEDGER_RPC_URL}", methods: { system_health: {} } }
  plain: { urls: "\${LEDGER_RPC_URL}" }
networks: { local: { kind: openai, url: "\${LEDGER_RPC_URL}" } }
rate: "0.05"
lists:
  edge: [request-id, { access-log: { file: access.log } }, authenticate, rate-limit]
  agents: [{ use: edge }, { authorize: { require: key } }, meter]
routes:
  - { path: /v1/ledger/rpc, methods: [POST], run: [{ use: agents }], to: { ledger-rpc: { upstream: ledger } } }
  - { path: /v1/ledger/rpc, websocket: true, run: [{ use: agents }], to: { ledger-ws: { upstream: ledger } } }
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: mcp }
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: agents }], to: chat }
  - { path: /v1/responses, methods: [POST], run: [{ use: agents }], to: responses }
  - { path: /v1/messages, methods: [POST], run: [{ use: agents }], to: messages }
  - { path: /v1/embeddings, methods: [POST], run: [{ use: agents }], to: embeddings }
  - { path: /v1/models, methods: [GET], run: [{ use: edge }], to: models }
  - { path: /plain, methods: [GET], run: [{ use: edge }], to: { forward: { upstream: plain } } }
`,
});
process.on("message", () => {
  globalThis.gc?.({ type: "minor" });
  process.send?.("collected");
});
process.on("disconnect", () => {
  void gateway[Symbol.asyncDispose]().then(() => process.exit());
});
process.send?.({ url: gateway.url, key: gateway.key });
