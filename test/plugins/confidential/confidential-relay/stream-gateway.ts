/** A whole gateway with a scripted enclave, for tests of the encrypted stream. */
import type { UsageRow } from "../../../../plugins/billing/metering/charge-text.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import type { Clock } from "../../../../src/plugin.ts";
import {
  startTestGateway,
  type TestGateway,
  type WantedKey,
} from "../../../../plugins/contracts/testing.ts";
import { join } from "node:path";
import type { Hello } from "../../../../plugins/confidential/protocol/hello.ts";
import { streamed } from "../../inference/networks/worker-scripts.ts";
import { startWorker, type Worker } from "../../inference/networks/scripted-worker.ts";
import { startEnclaveWorker, type EnclaveWorker } from "./enclave-worker.ts";
import {
  openStream,
  openWire,
  type OpenStream,
  type StreamAnswer,
  type Wire,
} from "./stream-client.ts";
import { untilAllReady } from "../../all-ready.ts";

/** 12 nano native tokens × 0.25 USD: 3 milli-CU per token. */
export const tokenMilli = 3;
export const pageOrigin = "https://app.example";

export interface StreamGateway extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly worker: EnclaveWorker;
  /** The models of the network `classic`, with `own`. */
  readonly plain: Worker;
  readonly url: string;
  wire(key?: string): Promise<Wire>;
  open(over?: Partial<Hello>): Promise<OpenStream>;
  /** Sends one request in a session of its own. */
  chat(over?: Partial<Hello>): Promise<StreamAnswer>;
  get(path: string, key?: string): Promise<Response>;
  /** Charges on disk, oldest first. */
  charges(): Promise<readonly UsageRow[]>;
  gauge(name: string): Promise<number>;
}

export const pipeline = `
version: 1
server: { port: "\${PORT}", drainSeconds: 5, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  alpha: { kind: enclave, url: "\${WORKER_URL}", status: { every: 100ms }, evidence: { kind: simulated, roots: ["\${ROOT}"] } }
  classic: { kind: openai, url: "\${PLAIN_URL:-}", price_per_token_nano: "12" }
lists:
  edge: [request-id, { access-log: { file: access.log } }, authenticate, rate-limit]
  inference: [{ use: edge }, { authorize: { require: inference } }, meter]
unmatched: [request-id, rate-limit]
routes:
  - path: /v1/confidential/stream
    websocket: true
    run: [{ use: inference }]
    to: { confidential-stream: { origins: ["\${ORIGIN}"], evidence: { kind: "\${EVIDENCE:-}" } } }
  - path: /v1/confidential/tickets
    methods: [POST]
    run: [{ use: edge }, { authorize: { require: inference } }]
    to: { confidential: { do: ticket } }
  - path: "/v1/confidential/receipts/{session}/{rid}"
    methods: [GET]
    run: [{ use: edge }, { authorize: { require: key } }]
    to: { confidential: { do: receipt } }
  - path: "/v1/confidential/evidence/{digest}"
    methods: [GET]
    run: [{ use: edge }]
    to: { confidential: { do: evidence } }
  - path: /.well-known/confidential-policy.json
    methods: [GET]
    run: [{ use: edge }]
    to: { confidential: { do: policy } }
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: inference }], to: chat }
  - { path: /v1/models, methods: [GET], run: [{ use: edge }], to: models }
  - path: "/v1/admin/confidential/{network}/models"
    methods: [PUT]
    run: [{ use: edge }, { authorize: { require: "platform:admin" } }]
    to: network-models
`;

export async function startStreamGateway(
  options: {
    readonly account?: WantedKey;
    readonly clock?: Clock;
    /** Whether the gateway is an enclave itself, with an unencrypted model server as upstream. */
    readonly own?: boolean;
    /** Origin of the pages that may connect; `pageOrigin` by default. */
    readonly origin?: string;
    /** Changes the worker before the gateway starts. The worker may not get ready then, so it is not waited for. */
    readonly prepare?: (worker: EnclaveWorker) => void;
    readonly rate?: string;
  } = {},
): Promise<StreamGateway> {
  await using stack = new AsyncDisposableStack();
  const worker = stack.use(await startEnclaveWorker());
  options.prepare?.(worker);
  const plain = stack.use(await startWorker({ otherwise: streamed() }));
  const own = { PLAIN_URL: plain.url, EVIDENCE: "simulated" };
  const gateway = stack.use(
    await startTestGateway({
      pipeline: pipeline.replace('rate: "0.25"', `rate: ${options.rate ?? '"0.25"'}`),
      env: {
        WORKER_URL: worker.url,
        ROOT: worker.root,
        ORIGIN: options.origin ?? pageOrigin,
        ...(options.own === true && own),
      },
      account: { plan: "enterprise", ...options.account },
      ...(options.clock !== undefined && { clock: options.clock }),
    }),
  );
  // On a busy machine, a gateway can start before the first status of the worker has arrived.
  if (options.prepare === undefined) await untilAllReady(gateway);
  const owned = stack.move();
  const url = `${gateway.url}/v1/confidential/stream`;
  const wire = (key = gateway.key): Promise<Wire> =>
    openWire(url, { headers: { authorization: `Bearer ${key}` } });
  return {
    gateway,
    worker,
    plain,
    url,
    wire,
    open: async (over) => openStream(await wire(), over),
    async chat(over) {
      using session = await openStream(await wire(), over);
      session.ask();
      return await session.answer();
    },
    get: (path, key) =>
      fetch(
        gateway.url + path,
        key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
      ),
    async gauge(name) {
      const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      return Number(new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1]);
    },
    charges: () => Promise.resolve([...readUsage(join(gateway.folder, "data"), {})]),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
