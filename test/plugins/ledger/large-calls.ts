/** A gateway whose calls of one method wait for the node, and whose bound for held bytes is 8 MiB. */
import { once } from "node:events";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import type { TestContext } from "node:test";
import { startTestGateway, type TestKey } from "../../../plugins/contracts/testing.ts";
import { TextNode } from "./ledger-ws/text-node.ts";

export const mebibyte = 1 << 20;
/** The node answers this method only after `node.release()`. */
export const heldMethod = "state_getKeysPaged";
export const heldMilliCu = 1000;

const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0, unfinishedBodyBytes: ${8 * mebibyte} }
admin: { port: "\${ADMIN_PORT}" }
upstreams:
  ledger: { urls: "\${NODE_URL}", connections: 2, connectMs: 600000, headersMs: 600000 }
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [authenticate, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - path: /v1/ledger/rpc
    websocket: true
    run: [authenticate, meter]
    to: { ledger-ws: { upstream: ledger } }
`;

export function callOf(method: string, bytes: number): string {
  const padded = (padding: string): string =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":["${padding}"]}`;
  return padded("x".repeat(bytes - padded("").length));
}

const items = Array.from({ length: 8 }, () => callOf(heldMethod, mebibyte / 8 - 2));
export const largeBodies = {
  call: callOf(heldMethod, mebibyte),
  batch: `[${items.join(",")}]`.padEnd(mebibyte),
};

export interface Asked {
  readonly sent: ClientRequest;
  /** The status of the answer. Undefined if the connection was cut. */
  readonly status: Promise<number | undefined>;
}

export interface LargeCalls {
  readonly url: string;
  readonly node: TextNode;
  readonly dear: TestKey;
  readonly other: TestKey;
  readonly third: TestKey;
  ask(by: TestKey, body: string): Asked;
  /** Resolves when the gateway holds this number of bytes for requests that have arrived. */
  holds(bytes: number): Promise<void>;
  shows(line: string): Promise<void>;
  charges(milliCu: () => number, surface?: string): Promise<void>;
}

export async function startLargeCalls(t: TestContext): Promise<LargeCalls> {
  const node = new TextNode();
  node.held.add(heldMethod);
  await node.start();
  t.after(() => node.stop());
  const gateway = await startTestGateway({ pipeline, env: { NODE_URL: node.url } });
  t.after(() => gateway[Symbol.asyncDispose]());
  const metrics = async (): Promise<string> => (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const shows = async (line: string): Promise<void> => {
    while (!(await metrics()).includes(`${line}\n`));
  };
  const all: ClientRequest[] = [];
  t.after(() => all.forEach((sent) => sent.destroy()));
  return {
    url: gateway.url,
    node,
    dear: gateway,
    other: await gateway.issue({}),
    third: await gateway.issue({}),
    ask({ key }, body) {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const options = { method: "POST", headers, agent: false };
      const sent = request(`${gateway.url}/v1/ledger/rpc`, options);
      all.push(sent);
      const status = once(sent, "response").then(
        ([response]) => (response as IncomingMessage).resume().statusCode,
        () => undefined,
      );
      sent.on("error", () => {});
      sent.end(body);
      return { sent, status };
    },
    shows,
    holds: (bytes) => shows(`sluice_held_bytes{kind="request"} ${bytes}`),
    async charges(milliCu, surface = "ledger-rpc") {
      const line = `sluice_charged_cu_milli_total{surface="${surface}"}`;
      while (!(await metrics()).includes(`${line} ${milliCu()}\n`));
    },
  };
}
