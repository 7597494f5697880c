/**
 * Sends a mix of good, bad and abandoned requests and upgrades to a whole gateway. Afterwards no exchange, session or
 * reservation is open, and SIGTERM ends the process in time although some of the next requests stay open.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

const root = join(import.meta.dirname, "../..");
const drainSeconds = 3;
const seed = Number(process.env["SEED"] ?? 3);

interface Demo {
  readonly url: string;
  readonly admin_url: string;
  readonly key: string;
}

/** Runs `sluice dev` with the shipped pipeline. */
async function startDemo(folder: string): Promise<{ demo: Demo; child: ChildProcess }> {
  const file = join(folder, "pipeline.yaml");
  const shipped = readFileSync(join(root, "pipeline.yaml"), "utf8");
  const drain = "drainSeconds: 30";
  assert.ok(shipped.includes(drain));
  await writeFile(file, shipped.replace(drain, `drainSeconds: ${drainSeconds}`));
  const { LEDGER_RPC_URL: _, CONFIDENTIAL_CLASSIC_URL: __, GATEWAY_ENV: ___, ...env } = process.env;
  const child = spawn(
    process.execPath,
    [join(root, "src/main.ts"), "dev", "--json", "--config", file],
    {
      env: {
        ...env,
        PORT: "0",
        ADMIN_PORT: "0",
        DATA_DIR: join(folder, "data"),
        LOG_LEVEL: "fatal",
      },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  return { demo: JSON.parse(line) as Demo, child };
}

/** A small random generator with a seed (mulberry32), so that a failure can be repeated with SEED. */
function randomOf(from: number): (below: number) => number {
  let state = from;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const offers = [
  "confidential.v1",
  "confidential.v1, confidential.v1",
  "confidential.v1,,",
  ", confidential.v1",
  "confidential.v1, sluice.ticket.x",
  "confidential v1",
  "",
  "other",
  "a,b,a",
  "confidential.v1\t,\tother",
];
const versions = ["13", "13", "13", "8", "12", "", "13, 13"];
const nonces = ["AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAAA==", "short", ""];

/** Returns the head of an upgrade request, any part of which can be wrong. */
function upgradeOf(random: (below: number) => number, key: string): string {
  const pick = (list: readonly string[]): string => list[random(list.length)] ?? "";
  const lines = [
    `${pick(["GET", "GET", "GET", "POST"])} /v1/confidential/stream HTTP/1.1`,
    "Host: h",
    `Connection: ${pick(["Upgrade", "keep-alive, Upgrade", "close"])}`,
    `Upgrade: ${pick(["websocket", "WebSocket", "h2c"])}`,
    `Sec-WebSocket-Version: ${pick(versions)}`,
    `Sec-WebSocket-Key: ${pick(nonces)}`,
    `Authorization: Bearer ${random(8) === 0 ? "wrong" : key}`,
  ];
  for (let count = random(3); count >= 0; count--) {
    lines.push(`Sec-WebSocket-Protocol: ${pick(offers)}`);
  }
  if (random(4) === 0) lines.push("Sec-WebSocket-Extensions: permessage-deflate; =;");
  return `${lines.join("\r\n")}\r\n\r\n${pick(["", "", "\x81\x85", "garbage"])}`;
}

/** Sends `text` and leaves: at once, after the first bytes of the answer, or by ending only the client's side. */
async function sendAndLeave(url: URL, text: string, how: number): Promise<void> {
  const socket = dial(url);
  socket.write(text);
  if (how === 1) socket.end();
  // Some get no answer in time, because their body never arrives.
  const enough = pause(300, undefined, { ref: false });
  if (how !== 0) await Promise.race([once(socket, "data"), once(socket, "close"), enough]);
  socket.destroy();
}

function dial(url: URL): Socket {
  const socket = connect(Number(url.port), url.hostname);
  socket.on("error", () => {});
  return socket;
}

const post = (path: string, key: string, body: string, length = body.length): string =>
  `POST ${path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${key}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;

const chat = JSON.stringify({
  model: "Demo/Echo-1",
  messages: [{ role: "user", content: "one two three four five six seven" }],
  stream: true,
});
const call = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "chain_getHeader", params: [] });
const goodUpgrade = (key: string): string =>
  upgradeOf(() => 0, key).replace("Bearer wrong", `Bearer ${key}`);

/** Everything that a client can start. */
function beginnings(random: (below: number) => number, key: string): string {
  const kinds = [
    () => upgradeOf(random, key),
    () => upgradeOf(random, key),
    () => upgradeOf(random, key),
    () => post("/v1/chat/completions", key, chat),
    () => post("/v1/chat/completions", key, chat, chat.length + 100),
    () => post("/v1/ledger/rpc", key, call),
    () => post("/rpc", key, call),
    () => post("/mcp", key, "{"),
  ];
  return (kinds[random(kinds.length)] ?? goodUpgrade)(key);
}

/** Sums of the gauges that must return to 0. */
async function open(admin: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${admin}/metrics`)).text();
  const names = ["sluice_exchanges_open", "sluice_stream_sessions", "sluice_reservations_open"];
  return Object.fromEntries(
    names.map((name) => {
      const series = [...text.matchAll(new RegExp(`^${name}(?:{[^}]*})? (\\S+)$`, "gm"))];
      assert.ok(series.length > 0, `there is no gauge ${name}`);
      return [name, series.reduce((sum, [, value]) => sum + Number(value), 0)];
    }),
  );
}

async function until(admin: string, wanted: (gauges: Record<string, number>) => boolean) {
  const deadline = AbortSignal.timeout(20_000);
  for (;;) {
    const gauges = await open(admin);
    if (wanted(gauges)) return;
    if (deadline.aborted) assert.fail(`seed ${seed}: still open: ${JSON.stringify(gauges)}`);
    await pause(50);
  }
}

test("after good, bad and abandoned requests nothing is open, and SIGTERM ends the process in time", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-open-"));
  const { demo, child } = await startDemo(folder);
  const exited = once(child, "exit");
  try {
    const url = new URL(demo.url);
    const random = randomOf(seed);
    for (let round = 0; round < 15; round++) {
      const batch = Array.from({ length: 20 }, () =>
        sendAndLeave(url, beginnings(random, demo.key), random(3)),
      );
      await Promise.all(batch);
    }
    await until(demo.admin_url, (gauges) => Object.values(gauges).every((value) => value === 0));
    // The next requests stay open: sessions, a body that never arrives, an answer that nobody reads.
    const staying = [
      ...Array.from({ length: 5 }, () => goodUpgrade(demo.key)),
      post("/v1/chat/completions", demo.key, chat, chat.length + 100),
    ].map((text) => {
      const socket = dial(url);
      socket.write(text);
      return socket;
    });
    await until(demo.admin_url, (gauges) => gauges["sluice_exchanges_open"] === 6);
    for (const socket of staying.slice(0, 2)) socket.destroy();
    child.kill("SIGTERM");
    const late = pause((1 + drainSeconds + 5) * 1000, "still running", { ref: false });
    assert.deepEqual(await Promise.race([exited, late]), [0, null]);
    for (const socket of staying) socket.destroy();
  } finally {
    child.kill("SIGKILL");
    await exited;
    await rm(folder, { recursive: true, force: true });
  }
});
