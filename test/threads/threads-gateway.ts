/** Starts a gateway with several threads, one of whose routes has a plugin that says and does what a test needs. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Agent, request as startRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { setTimeout as wait } from "node:timers/promises";
import type { TestContext } from "node:test";
import { startBareGateway, type BareGateway } from "../../src/testing/gateway.ts";

/** Far more than a loaded machine needs. */
const waitMs = 120_000;

/** A surface that answers with the index of its thread and a text, and fails in the ways that a query asks for. */
const surface = `
const id = crypto.randomUUID();
const { promise: gone, resolve: go } = Promise.withResolvers();
export default {
  kind: "surface", name: "which", description: "x", uses: ["gateway"],
  options: { type: "object", additionalProperties: false, properties: { text: { type: "string", default: "" } } },
  async start({ text }, host) {
    const { threads } = host;
    if (text === "fails in " + threads?.index) throw new Error("cannot start");
    const served = threads?.index === 0 ? threads.serve("text" + text, () => "main" + text) : undefined;
    // The instance in the main thread shares the memory of the test.
    const gate = threads?.index === 0 ? threads.serve("gate" + text, (_, from) => globalThis.startGate?.(text, from)) : undefined;
    if (threads?.index > 0) await threads.call("gate" + text);
    const routes = threads?.index === 0
      ? threads.serve("routes" + text, () => JSON.stringify(host.use("gateway").running().routes)) : undefined;
    const received = threads?.receive("go", go);
    const stop = () => {
      served?.[Symbol.dispose]();
      gate?.[Symbol.dispose]();
      routes?.[Symbol.dispose]();
      received?.[Symbol.dispose]();
    };
    return { answer, stop };
    function answer(exchange) {
      const { query } = exchange.request;
      if (query === "throw") setTimeout(() => { throw new Error("out of turn"); });
      // Blocks without CPU time. Between the waits, the main thread can read the stack.
      if (query === "block") for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
      if (query === "ask") return gone.then(() => threads.call("text" + text)).then((body) => ({ status: 200, body }));
      if (query === "routes") return threads.call("routes" + text).then((body) => ({ status: 200, body }));
      if (query === "go") {
        go();
        threads.send("go");
      }
      if (query === "id") return { status: 200, body: id };
      const reply = { status: 200, body: host.threads?.index + text };
      // Long enough for a test to see that the request runs, and no test waits for less.
      return query === "wait" ? new Promise((end) => setTimeout(end, 500, reply)) : reply;
    }
  },
};
`;

const onceService = `
export default {
  kind: "service", name: "once", description: "x", runsOnce: true,
  start(_, host) {
    host.log.warn({}, "once has started in thread " + host.threads?.index);
    return { service: {} };
  },
};
`;

export const pipeline = (threads: number, text = "", more = ""): string => `version: 1
server: { port: "\${PORT}", threads: ${threads}${more} }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { which: ./which.js }
routes:
  - { path: /which, run: [request-id], to: { which: { text: "${text}" } } }
`;

/** The services that the route does not use, so that a start is short. */
const without = `
    accounts attestation confidential-relay enclave-workers metering sealed-networks
    tool-catalogue ledger networks proofs`
  .trim()
  .split(/\s+/);

/** A plugin in a thread starts when `gate` has resolved for its text and the thread's index, after 10 s at most. */
export function useStartGate(
  t: TestContext,
  gate: (text: string, thread: number) => PromiseLike<void> | undefined,
): void {
  Object.assign(globalThis, { startGate: gate });
  t.after(() => Object.assign(globalThis, { startGate: undefined }));
}

export interface ThreadsGateway extends BareGateway {
  /** Requests a path on a connection of its own. Resolves with the text of the answer. */
  ask(path: string): Promise<string>;
  askUntil(path: string, isDone: (answer: string) => boolean): Promise<void>;
  /** Makes the plugin throw out of turn in this thread. */
  throwIn(thread: number): Promise<void>;
  readonly asked: number;
  admin(path: string): Promise<string>;
  adminUntil(path: string, isDone: (answer: string) => boolean): Promise<void>;
}

export async function startThreads(
  t: TestContext,
  text: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ThreadsGateway> {
  const gateway = await startBareGateway({
    without,
    pipeline: text,
    env,
    prepare(folder) {
      writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
      writeFileSync(join(folder, "which.js"), surface);
      writeFileSync(join(folder, "once.js"), onceService);
    },
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  const get = async (url: string): Promise<string> =>
    (await fetch(url, { headers: { connection: "close" } })).text();
  let asked = 0;
  const ask = async (path: string): Promise<string> => {
    const answer = await get(gateway.url + path);
    asked++;
    return answer;
  };
  const admin = (path: string): Promise<string> => get(gateway.adminUrl + path);
  const until =
    (request: (path: string) => Promise<string>, pauseMs: number): ThreadsGateway["askUntil"] =>
    async (path, isDone) => {
      const end = performance.now() + waitMs;
      for (;;) {
        // A connection to a thread that has just ended is closed.
        const answer = await request(path).catch(() => "{}");
        if (isDone(answer)) return;
        assert.ok(performance.now() < end, `${path} still answers: ${answer}`);
        await wait(pauseMs);
      }
    };
  return {
    ...gateway,
    ask,
    get asked() {
      return asked;
    },
    askUntil: until(ask, 1),
    async throwIn(thread) {
      for (let isThere = false; !isThere;) {
        // Both requests use the same connection, so they reach the same thread.
        const agent = new Agent({ keepAlive: true, maxSockets: 1 });
        const answerTo = async (path: string): Promise<string> => {
          const request = startRequest(gateway.url + path, { agent }).end();
          const [response] = (await once(request, "response")) as [IncomingMessage];
          return await textOf(response);
        };
        isThere = (await answerTo("/which")) === String(thread);
        if (isThere) assert.equal(await answerTo("/which?throw"), String(thread));
        agent.destroy();
      }
    },
    admin,
    adminUntil: until(admin, 10),
  };
}
