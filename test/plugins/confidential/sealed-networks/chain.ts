/** A local gateway, a gateway that relays and bills, and a worker's enclave in front of a model server. */
import type { TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { demoModelId, startTestWorker } from "../worker/fixture.ts";
import { startTemplate } from "./local-gateway.ts";

export interface Chain {
  readonly url: string;
  /** The gateway that relays and bills. */
  readonly relay: TestGateway;
}

const prices = { prompt: "12", cached: "1", completion: "20" };

interface ChainOptions {
  /** A model server. Default: the demo model. */
  readonly upstream?: string;
  /** Its model. */
  readonly model?: string;
  readonly coefficient?: number;
  /** The price of a token. */
  readonly price?: unknown;
  /** Whether the model answers for names that are not listed. Default: true. */
  readonly isDefault?: boolean;
}

export async function startChain(
  t: Pick<TestContext, "after">,
  options: ChainOptions = {},
): Promise<Chain> {
  const { upstream, model = demoModelId, coefficient = 1200 } = options;
  const { price = prices, isDefault = true } = options;
  const served = { models: [model], coefficient };
  const worker = await startTestWorker(t, { ...(upstream && { upstream }), ...served });
  const evidence = { kind: "simulated", roots: [worker.simulatedRoot] };
  const relay = await startTestGateway({
    pipeline: `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  confidential-alpha:
    kind: enclave
    url: "${worker.url}"
    price_per_token_nano: ${JSON.stringify(price)}
    evidence: ${JSON.stringify(evidence)}
unmatched: [request-id]
routes:
  - { path: /v1/models, methods: [GET], run: [request-id, authenticate], to: models }
  - path: /v1/confidential/stream
    websocket: true
    run: [request-id, authenticate, { authorize: { require: inference } }, meter]
    to: confidential-stream
`,
  });
  t.after(() => relay[Symbol.asyncDispose]());
  const SLUICE_MODEL = isDefault ? model : "";
  const env = { SLUICE_URL: relay.url, SLUICE_API_KEY: relay.key, SLUICE_MODEL };
  const { url } = await startTemplate(t, { evidence, env });
  return { url, relay };
}
