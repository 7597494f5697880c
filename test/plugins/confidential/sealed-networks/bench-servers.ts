import { writeFileSync } from "node:fs";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { startTestWorker } from "../worker/fixture.ts";
import { startDemoModel } from "../../../../plugins/inference/demo/model.ts";
const t: any = { after() {} };
const model = await startDemoModel({ tokenMs: 1 });
const worker = await startTestWorker(t, { upstream: model.url });
const evidence = { kind: "simulated", roots: [worker.simulatedRoot] };
const relay = await startTestGateway({ strict: false, pipeline: `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  confidential-alpha: { kind: enclave, url: "${worker.url}", price_per_token_nano: "12", evidence: ${JSON.stringify(evidence)} }
  classic: { kind: openai, url: "${model.url}" }
unmatched: [request-id]
routes:
  - { path: /v1/models, methods: [GET], run: [request-id, authenticate], to: models }
  - { path: /v1/confidential/stream, websocket: true, run: [request-id, authenticate, { authorize: { require: inference } }, meter], to: confidential-stream }
` });
writeFileSync("/tmp/connect/bench/servers.json", JSON.stringify({ model: model.url, relay: relay.url, key: relay.key, root: worker.simulatedRoot }));
console.log("ready");
