import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { TestContext } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import { demoModelId, startDemoModel } from "../../../../plugins/inference/demo/model.ts";
import {
  startWorker,
  type RunningWorker,
  type WorkerOptions,
} from "../../../../plugins/confidential/worker/worker.ts";
import { keepingLog } from "../../../../src/testing/keeping-log.ts";
import { connect, net, type ClientOptions, type TestClient } from "../enclave/client.ts";
import { openSocket, type SocketOptions, type WorkerSocket } from "./socket.ts";
import { close, listen } from "../../../../src/http/demo-server.ts";

export { demoModelId };

export const params = {
  model: demoModelId,
  messages: [{ role: "user", content: "one two three four five six seven eight nine ten" }],
};

export interface TestWorker extends RunningWorker {
  readonly lines: readonly string[];
}

export async function startTestWorker(
  t: Pick<TestContext, "after">,
  over: Partial<WorkerOptions> = {},
): Promise<TestWorker> {
  const lines: string[] = [];
  const log = keepingLog(lines);
  const worker = await startWorker({
    clock: systemClock,
    log,
    network: net,
    models: [demoModelId],
    upstream: over.upstream ?? (await startModel(t)),
    apiKey: undefined,
    host: "127.0.0.1",
    port: 0,
    advertise: undefined,
    coefficient: 1200,
    evidence: "simulated",
    simulatedAllowed: true,
    token: undefined,
    ...over,
  });
  assert.ok(!isFault(worker), JSON.stringify(worker));
  let stopped = false;
  t.after(() => (stopped ? undefined : worker.stop(0)));
  return {
    ...worker,
    lines,
    stop(ms) {
      stopped = true;
      return worker.stop(ms);
    },
  };
}

export async function startModel(t: Pick<TestContext, "after">): Promise<string> {
  const model = await startDemoModel({ tokenMs: 1 });
  t.after(() => model.close());
  return model.url;
}

export async function startScriptedModel(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url !== "/v1/models") return answer(request, response);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ data: [{ id: demoModelId }] }));
  });
  const url = await listen(server, 0, "127.0.0.1");
  t.after(() => close(server));
  return url;
}

export function chunk(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  return `data: ${JSON.stringify({ object: "chat.completion.chunk", choices })}\n\n`;
}

export interface ConnectedWorker {
  readonly wire: WorkerSocket;
  readonly client: TestClient;
}

export async function connectTo(
  t: TestContext,
  url: string,
  { hello, token }: Pick<ClientOptions, "hello"> & Pick<SocketOptions, "token"> = {},
): Promise<ConnectedWorker> {
  const wire = await openSocket(t, url, token === undefined ? {} : { token });
  const now = Math.floor(Date.now() / 1000);
  const client = await connect(wire, { now, ...(hello && { hello }) });
  return { wire, client };
}

export interface Status {
  readonly workers: readonly Readonly<Record<string, unknown>>[];
  readonly evidence: string;
  readonly image_hash: string;
}

export async function statusOf(worker: RunningWorker): Promise<Status> {
  const response = await fetch(worker.statusUrl);
  assert.equal(response.status, 200);
  return (await response.json()) as Status;
}
