/** A local gateway, a gateway that relays and bills, and the enclaves of workers in front of a model server. */
import { createServer } from "node:http";
import type { TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { until } from "../confidential-relay/wait.ts";
import { demoModelId, startTestWorker, type Status, type TestWorker } from "../worker/fixture.ts";
import { startTemplate } from "./local-gateway.ts";
import { listen } from "../../../../src/http/demo-server.ts";

export interface Chain {
  readonly url: string;
  readonly relay: TestGateway;
  readonly workers: readonly ChainWorker[];
}

interface ChainWorker extends TestWorker {
  readonly coefficient: number;
  /** Starts another worker at the address of this one, with new keys. Called when this one has stopped. */
  readonly replace: () => Promise<unknown>;
}

const prices = { prompt: "12", cached: "1", completion: "20" };

const seed = new Uint8Array(32).fill(5);

interface ChainOptions {
  /** A model server. Default: the demo model. */
  readonly upstream?: string;
  readonly model?: string;
  /** The price coefficient of the first worker. It increases by one from worker to worker. */
  readonly coefficient?: number;
  readonly price?: unknown;
  /** Whether the model answers for names that are not listed. Default: true. */
  readonly isDefault?: boolean;
  /** Number of workers. Default: 1. */
  readonly count?: number;
}

export async function startChain(
  t: Pick<TestContext, "after">,
  options: ChainOptions = {},
): Promise<Chain> {
  const { upstream, model = demoModelId, coefficient = 1200 } = options;
  const { price = prices, isDefault = true, count = 1 } = options;
  const workers = await Promise.all(
    Array.from({ length: count }, async (_, index): Promise<ChainWorker> => {
      const own = { models: [model], coefficient: coefficient + index, seed };
      const all = { ...own, ...(upstream && { upstream }) };
      const worker = await startTestWorker(t, all);
      const port = Number(new URL(worker.url).port);
      return { ...worker, ...own, replace: () => startTestWorker(t, { ...all, port }) };
    }),
  );
  const evidence = { kind: "simulated", roots: [workers[0]?.simulatedRoot] };
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
    url: "${workers[0]?.url}"
    origins: ${JSON.stringify(workers.map((each) => new URL("/", each.url).href))}
    status: { url: "${await startStatus(t, workers)}" }
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
  const networks = relay.gateway.use("networks");
  await until(() => networks?.open[0]?.models.get(model)?.workers.length === count);
  return { url, relay, workers };
}

async function startStatus(
  t: Pick<TestContext, "after">,
  workers: readonly TestWorker[],
): Promise<string> {
  const documents = await Promise.all(
    workers.map(async ({ statusUrl }) => (await fetch(statusUrl)).json() as Promise<Status>),
  );
  const listed = documents.flatMap((document) => document.workers);
  const server = createServer((_, response) => {
    response.end(JSON.stringify({ ...documents[0], workers: listed }));
  });
  t.after(() => server.close());
  return `${await listen(server, 0, "127.0.0.1")}/`;
}
