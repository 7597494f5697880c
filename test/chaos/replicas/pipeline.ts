import { join } from "node:path";
import { model } from "../../../bench/soak/upstreams.ts";

export const readMilliCu = 7;
export const transferMilliCu = 100;
/** 12 nano native tokens × 0.25 USD. */
const tokenMilliCu = 3;
const words = 12;
export const chatBody = {
  model,
  messages: [{ role: "user", content: "A few words, please." }],
  max_tokens: words,
  stream: true,
  stream_options: { include_usage: true },
};
/** A chat reserves its prompt as bytes, the template of the model and its answer. */
export const maxChatMilliCu =
  (JSON.stringify(chatBody.messages).length + 16_384 + words) * tokenMilliCu;

/** Credit per month of the small workspaces. */
export const smallMilliCu = 2_000;

const tool = join(import.meta.dirname, "transfer-tool.ts");

export const pipeline = `version: 1
secret: "\${GATEWAY_SECRET}"
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0, drainSeconds: 10 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}", redis: "\${REDIS_URL}", replica: "\${REPLICA_NAME}" }
log: { level: info }
plans:
  free: { rps: 100000, includedCu: ${smallMilliCu / 1000}, overageUsdPerCu: none }
  enterprise: { rps: 100000, includedCu: 1000000000 }
rate: "0.25"
upstreams:
  ledger:
    urls: "\${NODE_URL}"
    cacheBytes: 0
    singleFlight: false
    methods: { state_getStorageHash: { cuMilli: ${readMilliCu} } }
networks:
  classic: { kind: openai, url: "\${MODEL_URL}", price_per_token_nano: "12" }
plugins: { transfer-tool: ${JSON.stringify(tool)} }
tools: [{ transfer-tool: { url: "\${EFFECTS_URL}" } }]
lists:
  edge: [request-id, authenticate, rate-limit]
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [{ use: edge }, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - path: /v1/chat/completions
    methods: [POST]
    run: [{ use: edge }, { authorize: { require: inference } }, meter]
    to: chat
  - { path: /rpc, methods: [POST], run: [{ use: edge }, { authorize: { require: key } }, meter], to: tool-rpc }
  - { path: /ping, methods: [GET], run: [{ use: edge }, { authorize: { require: key } }], to: discovery }
  - path: /tma/workspaces/{id}/cu/purchase
    methods: [POST]
    run: [{ use: edge }, idempotency, { authorize: { require: "workspace:admin" } }]
    to: { workspaces: { do: purchase } }
`;
