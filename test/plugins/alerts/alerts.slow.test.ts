/** A whole gateway that posts alerts to a receiver. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { limitsMs, lookMs } from "../../../plugins/alerts/alerts/start.ts";
import { startBareGateway, type BareGateway } from "../../../src/testing/gateway.ts";
import { startTestGateway } from "../../../plugins/contracts/testing.ts";
import { manualClock, type ManualClock } from "../../../src/testing/clock.ts";

const key = Buffer.alloc(24, 1);
const secret = `whsec_${key.toString("base64")}`;

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly event: { readonly type: string; readonly data: Readonly<Record<string, unknown>> };
}

interface Receiver {
  readonly url: string;
  readonly received: Received[];
  readonly paths: string[];
  status: number;
}

async function startReceiver(t: TestContext): Promise<Receiver> {
  const receiver = { url: "", received: [] as Received[], paths: [] as string[], status: 204 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      receiver.paths.push(request.url ?? "");
      // The tests read only members that they check.
      const event = JSON.parse(text) as Received["event"];
      receiver.received.push({ headers: request.headers, text, event });
      response.writeHead(receiver.status, { location: "/elsewhere" }).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return receiver;
}

function section({ url }: Receiver, minFreePercent = 1): string {
  return `alerts: { url: "${url}", secret: ${secret}, minFreePercent: ${minFreePercent} }`;
}

/** `more`: lines of pipeline.yaml. */
function pipelineWith(
  alerts: string,
  more = "routes: [{ path: /x, methods: [GET], run: [], to: openapi }]",
): string {
  return `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
${alerts}
${more}
`;
}

async function start(
  t: TestContext,
  pipeline: string,
): Promise<BareGateway & { clock: ManualClock }> {
  const clock = manualClock();
  const gateway = await startBareGateway({ pipeline, clock });
  t.after(() => gateway[Symbol.asyncDispose]());
  return Object.assign(gateway, { clock });
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setImmediate(resolve));
}

async function answers(gateway: BareGateway, path: string, text: string): Promise<boolean> {
  return (await (await fetch(gateway.adminUrl + path)).text()).includes(text);
}

test("a failed reload is reported with a valid signature, and so is its end", async (t) => {
  const receiver = await startReceiver(t);
  const alerts = section(receiver);
  const gateway = await start(t, pipelineWith(alerts));
  await gateway.write(pipelineWith(alerts, "routes: 5"));
  await gateway.gateway.reloader.reload("test");
  gateway.clock.advance(lookMs);
  await until(() => receiver.received.length === 1);
  await gateway.write(pipelineWith(alerts));
  await gateway.gateway.reloader.reload("test");
  gateway.clock.advance(lookMs);
  await until(() => receiver.received.length === 2);
  assert.deepEqual(
    receiver.received.map(({ event }) => event.type),
    ["reload.failed", "reload.recovered"],
  );
  const [first] = receiver.received;
  assert.ok(first);
  assert.equal(first.event.data["environment"], "dev");
  assert.equal(first.event.data["fault_count"], 1);
  const id = String(first.headers["webhook-id"]);
  const signed = `${id}.${String(first.headers["webhook-timestamp"])}.${first.text}`;
  assert.equal(
    first.headers["webhook-signature"],
    `v1,${createHmac("sha256", key).update(signed).digest("base64")}`,
  );
});

test("an ejected server of an upstream is reported, and so is its return", async (t) => {
  const receiver = await startReceiver(t);
  const backend = createServer((_, response) => response.end("ok"));
  backend.listen(0, "127.0.0.1");
  await once(backend, "listening");
  const { port } = backend.address() as AddressInfo;
  backend.close();
  await once(backend, "close");
  const gateway = await start(
    t,
    pipelineWith(
      section(receiver),
      `upstreams: { api: { urls: "http://127.0.0.1:${port}" } }
routes: [{ path: /api, methods: [GET], run: [], to: { forward: { upstream: api } } }]`,
    ),
  );
  assert.equal((await fetch(`${gateway.url}/api`)).status, 503);
  gateway.clock.advance(lookMs);
  await until(() => receiver.received.length === 1);
  backend.listen(port, "127.0.0.1");
  await once(backend, "listening");
  t.after(() => {
    backend.closeAllConnections();
    backend.close();
  });
  // The end of the cooldown, after which the server is probed.
  gateway.clock.advance(5_000);
  await until(() => answers(gateway, "/readyz", '"upstream api":"ok"'));
  gateway.clock.advance(lookMs);
  await until(() => receiver.received.length === 2);
  assert.deepEqual(
    receiver.received.map(({ event }) => [event.type, event.data["backend"], event.data["server"]]),
    [
      ["backend.ejected", "upstream api", `127.0.0.1:${port}`],
      ["backend.returned", "upstream api", `127.0.0.1:${port}`],
    ],
  );
});

test("a redirect of the receiver is not followed, and a full disk is reported until it is accepted", async (t) => {
  const receiver = await startReceiver(t);
  receiver.status = 307;
  // Almost no disk has 99 % of its space free.
  const gateway = await start(t, pipelineWith(section(receiver, 99)));
  const failed = 'sluice_alerts_failed_total{reason="attempt"}';
  gateway.clock.advance(lookMs);
  await until(() => answers(gateway, "/metrics", `${failed} 1`));
  gateway.clock.advance(10_000);
  await until(() => answers(gateway, "/metrics", `${failed} 2`));
  receiver.status = 204;
  gateway.clock.advance(20_000);
  await until(() => answers(gateway, "/metrics", "sluice_alerts_sent_total 1"));
  assert.equal(receiver.received.length, 3);
  assert.deepEqual(new Set(receiver.paths), new Set(["/hook"]));
  assert.deepEqual(
    new Set(receiver.received.map(({ event }) => event.type)),
    new Set(["disk.low"]),
  );
});

test("the limit of a key is reported when half of it is used", async (t) => {
  const receiver = await startReceiver(t);
  const clock = manualClock();
  const alerts = section(receiver);
  const route =
    "routes: [{ path: /call, methods: [GET], run: [authenticate, { meter: { price: 500 } }], to: discovery }]";
  await using gateway = await startTestGateway({
    pipeline: pipelineWith(alerts, route),
    account: { cuLimit24hMilli: 1_000 },
    clock,
  });
  const headers = { authorization: `Bearer ${gateway.key}` };
  assert.equal((await fetch(`${gateway.url}/call`, { headers })).status, 200);
  clock.advance(limitsMs);
  await until(() => receiver.received.length === 1);
  const data = receiver.received[0]?.event.data ?? {};
  assert.equal(receiver.received[0]?.event.type, "limit.reached");
  assert.equal(data["scope"], "24h");
  assert.equal(data["threshold_percent"], 50);
  assert.equal(data["used_cu_milli"], 500);
  assert.equal(data["limit_cu_milli"], 1_000);
});

test("nothing is watched or sent without a url", async (t) => {
  const gateway = await start(t, pipelineWith("alerts: {}"));
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.ok(!metrics.includes("sluice_alerts"));
});

test("a section that is not complete is refused", async () => {
  for (const [alerts, message] of [
    [`{ url: "https://x.example" }`, /missing key "secret"/],
    [`{ url: "https://x.example", secret: whsec_c2hvcnQ= }`, /secret/],
    [`{ url: "https://x.example", secret: "${"a".repeat(40)}" }`, /secret/],
    [`{ url: "ftp://x.example", secret: ${secret} }`, /url/],
    [`{ minFreePercent: 0 }`, /minFreePercent/],
  ] as const) {
    await assert.rejects(
      startBareGateway({ pipeline: pipelineWith(`alerts: ${alerts}`) }),
      (error) => message.test(JSON.stringify(error) + String(error)),
      alerts,
    );
  }
});
