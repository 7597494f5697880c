/** The choice of a worker for a session, and the retry with another worker before a request has been sent. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, describe, it, test } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { model, startEnclaveWorker, type EnclaveWorker } from "./enclave-worker.ts";
import { openStream, openWire, type OpenStream } from "./stream-client.ts";
import { startWorker } from "../../inference/networks/scripted-worker.ts";
import { startStreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}", drainSeconds: 1, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  alpha: { kind: enclave, url: "\${URL}", origins: ["\${OTHER}"], status: { url: "\${STATUS_URL}" }, evidence: { kind: simulated } }
routes:
  - path: /v1/confidential/stream
    websocket: true
    run: [authenticate, meter]
    to: { confidential-stream: {} }
`;

describe("the choice between two workers", () => {
  const stack = new AsyncDisposableStack();
  let cheap: EnclaveWorker;
  let dear: EnclaveWorker;
  let gateway: TestGateway;

  before(async () => {
    cheap = stack.use(await startEnclaveWorker());
    dear = stack.use(await startEnclaveWorker());
    const entry = (id: string, coefficient: number, { url }: EnclaveWorker): object => {
      return { id, model, coefficient, state: "active", url };
    };
    const workers = [entry("cheap", 1000, cheap), entry("dear", 2000, dear)];
    const status = createServer((_, response) =>
      response.end(JSON.stringify({ price_per_token_nano: "12", workers })),
    );
    status.listen(0, "127.0.0.1");
    await once(status, "listening");
    stack.defer(() => void status.close());
    // A listening TCP server has an address of this form.
    const { port } = status.address() as AddressInfo;
    const env = {
      URL: cheap.url,
      OTHER: new URL("/", dear.url).href,
      STATUS_URL: `http://127.0.0.1:${port}/`,
    };
    gateway = stack.use(await startTestGateway({ pipeline, env }));
    // On a busy machine, a gateway can start before it has reached both workers.
    const networks = gateway.gateway.use("networks")!;
    await until(() => networks.open[0]?.models.get(model)?.workers.length === 2);
  });
  after(() => stack.disposeAsync());
  beforeEach(() => {
    cheap.script = {};
    dear.script = {};
  });

  const open = async (maxCoefficient?: number): Promise<OpenStream> => {
    const headers = { authorization: `Bearer ${gateway.key}` };
    const wire = await openWire(`${gateway.url}/v1/confidential/stream`, { headers });
    return openStream(wire, { maxCoefficient });
  };
  const coefficientOf = ({ attestation }: OpenStream): unknown =>
    // The gateway's own offer.
    (attestation.offer as { coefficient: number }).coefficient;

  it("never chooses a worker above the client's maximum price, however busy the other one is", async () => {
    using first = await open(1999);
    using second = await open(1999);
    using third = await open(1999);
    assert.deepEqual([first, second, third].map(coefficientOf), [1000, 1000, 1000]);
  });

  it("tries the other worker after a failed handshake, without an error for the client", async () => {
    let failed = 0;
    cheap.script = {
      answer() {
        failed++;
        return '{"type":"error","error":"","code":"UPSTREAM_FAILED"}';
      },
    };
    using first = await open();
    // The worker that is idle now is asked first, unless it was asked before.
    using second = await open();
    assert.deepEqual([first, second].map(coefficientOf), [2000, 2000]);
    assert.ok(failed > 0);
    second.ask();
    assert.equal((await second.answer()).final["finish_reason"], "stop");
  });
});

test("a rate that cannot be read refuses sessions, in an enclave and in the gateway as an enclave", async () => {
  await using source = await startWorker();
  source.documents.set("/rate", 500);
  const rate = `"${source.url}/rate#/usd"`;
  await using stream = await startStreamGateway({ own: true, rate, prepare: () => {} });
  await assert.rejects(stream.open(), /MODEL_NOT_AVAILABLE/);
  const own = { network: "classic", termination: "gateway" } as const;
  await assert.rejects(stream.open(own), /MODEL_NOT_AVAILABLE/);
});
