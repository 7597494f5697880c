/** `npm start` as a user runs it: the process, its output, the requests that it prints, and its end. */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { dataOf } from "../plugins/inference/networks/chat-events.ts";

const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const shipped = readFileSync(new URL("../../pipeline.yaml", import.meta.url), "utf8").split("\n");

let folder: string;
before(async () => void (folder = await mkdtemp(join(tmpdir(), "sluice-dev-"))));
after(() => rm(folder, { recursive: true, force: true }));

interface Printed {
  readonly rpc_url: string;
  readonly chat_url?: string;
  readonly stream_url?: string;
  readonly simulated_root?: string;
  readonly model: string;
  readonly pipelines_url: string;
  readonly node: string;
  readonly workspace_id: string;
  readonly key: string;
  readonly requests: readonly {
    readonly url: string;
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly curl: string;
  }[];
}

type Env = Readonly<Record<string, string>>;

function spawnDev(args: readonly string[], env: Env = {}): ChildProcess {
  const {
    LEDGER_RPC_URL: _,
    GATEWAY_ENV: __,
    SLUICE_CONFIG: ___,
    CONFIDENTIAL_CLASSIC_URL: ____,
    TOKEN_USD_RATE: _____,
    ...inherited
  } = process.env;
  return spawn(process.execPath, [main, "dev", ...args], {
    env: { ...inherited, PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data"), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function withDev(env: Env, work: (printed: Printed) => Promise<void>): Promise<unknown> {
  const child = spawnDev(["--json"], env);
  const exited = once(child, "close");
  let log = "";
  child.stderr!.on("data", (chunk) => void (log += String(chunk)));
  try {
    const [line] = await Promise.race([
      once(createInterface(child.stdout!), "line"),
      exited.then(() => assert.fail(`sluice dev ended at once: ${log}`)),
    ]);
    // `sluice dev --json` prints this line; the tests compare its members.
    await work(JSON.parse(String(line)) as Printed);
  } finally {
    child.kill("SIGTERM");
    await exited;
  }
  return (await exited)[0];
}

async function failedDev(env: Env): Promise<{ readonly code: unknown; readonly error: string }> {
  const child = spawnDev([], env);
  let error = "";
  child.stderr!.on("data", (chunk) => void (error += String(chunk)));
  const [code] = await once(child, "close");
  return { code, error };
}

function callsOf({ requests }: Printed): Printed["requests"] {
  return requests.filter(({ curl }) => curl.startsWith("curl -s "));
}

function chatOf({ requests }: Printed): Printed["requests"][number] {
  return requests.find(({ curl }) => curl.startsWith("curl -sN "))!;
}

async function request({ url, method, headers, body }: Printed["requests"][number]) {
  const response = await fetch(url, { method, headers, body });
  assert.equal(response.status, 200);
  return {
    cost: response.headers.get("x-used-cu-milli"),
    json: await response.json(),
  };
}

test("sluice dev with its demo backends", async (t) => {
  let first: Printed | undefined;
  const code = await withDev({}, async (printed) => {
    first = printed;
    await t.test("the printed requests work, and the pipeline is shown", () =>
      assertRequestsWork(printed),
    );
    await t.test("the printed shell commands send the same requests as their parts", (each) =>
      assertCommandsWork(each, printed),
    );
    await t.test("the printed chat request streams tokens, and its usage contains their cost", () =>
      assertChatWorks(printed),
    );
    await t.test("sluice verify reports that the stream ends in a simulated enclave", () =>
      assertIsSimulated(printed),
    );
  });
  assert.equal(code, 0, "SIGTERM");
  await t.test("npm start continues with the same data, and ends with the gateway", async () => {
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const child = spawn("npm", ["start", "--silent", "--", "--json"], {
      cwd: root,
      env: { ...process.env, PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") },
      // A gateway that outlives npm would keep the pipe open and block this test.
      stdio: ["ignore", "pipe", "inherit"],
    });
    const closed = once(child, "close");
    const lines = createInterface(child.stdout);
    let next: Printed | undefined;
    for await (const line of lines) {
      if (!line.startsWith("{")) continue;
      next = JSON.parse(line) as Printed;
      break;
    }
    const { key, workspace_id: workspaceId } = first ?? assert.fail();
    try {
      assert.equal(next?.workspace_id, workspaceId);
      assert.notEqual(next.key, key);
      const [one] = next.requests;
      assert.ok(one !== undefined);
      await request({ ...one, headers: { ...one.headers, authorization: `Bearer ${key}` } });
    } finally {
      child.kill("SIGTERM");
      child.stdout.resume();
      await closed;
    }
  });
});

async function assertRequestsWork(printed: Printed): Promise<void> {
  assert.equal(printed.node, "demo");
  assert.match(printed.key, /^gateway_dev_[0-9a-f]{32}$/);
  const [health, storage, batch] = await Promise.all(callsOf(printed).map(request));
  assert.deepEqual(health, {
    cost: "100",
    json: {
      jsonrpc: "2.0",
      id: 1,
      result: { peers: 0, isSyncing: false, shouldHavePeers: false },
    },
  });
  assert.deepEqual(storage, {
    cost: "500",
    json: { jsonrpc: "2.0", id: 2, result: "0xfc7a05fba1010000" },
  });
  assert.equal(batch!.cost, "500");
  assert.ok(Array.isArray(batch!.json) && batch!.json.length === 3);
  assert.deepEqual(batch!.json[0], { jsonrpc: "2.0", id: 1, result: "Coretime Demo" });

  const pipelines = await fetch(printed.pipelines_url);
  assert.equal(pipelines.status, 200);
  assert.match(await pipelines.text(), /ledger-rpc/);
}

const run = promisify(execFile);

async function assertIsSimulated(printed: Printed): Promise<void> {
  const { stream_url: streamUrl = "", key, simulated_root: root = "" } = printed;
  const model = ["--network", "confidential-classic", "--model", demoModelId];
  const trust = ["--image-hash", "any", "--termination", "gateway", "--simulated-root", root];
  const args = ["verify", new URL(streamUrl).origin, "--key", key, ...model, ...trust, "--json"];
  const { stdout } = await run(process.execPath, [main, ...args, "--allow-simulated"]);
  const { accepted, verified, assurance } = JSON.parse(stdout) as Record<string, unknown>;
  assert.deepEqual([accepted, verified, assurance], [true, false, "simulated"]);
  await assert.rejects(run(process.execPath, [main, ...args]), { code: 1 });
}

async function assertCommandsWork(t: TestContext, printed: Printed): Promise<void> {
  const hasCurl = await run("curl", ["--version"]).then(
    () => true,
    () => false,
  );
  if (!hasCurl) return t.skip("no curl here");
  for (const each of callsOf(printed)) {
    const { stdout } = await run("sh", ["-c", each.curl]);
    assert.deepEqual(JSON.parse(stdout), (await request(each)).json);
  }
  const { stdout } = await run("sh", ["-c", chatOf(printed).curl]);
  assert.match(stdout, /data: \[DONE\]\n\n$/);
}

async function assertChatWorks(printed: Printed): Promise<void> {
  assert.equal(printed.model, "demo");
  assert.equal(printed.requests[1], chatOf(printed));
  const { url, method, headers, body, curl } = chatOf(printed);
  assert.match(curl, /^curl -sN http:/);
  const response = await fetch(url, { method, headers, body });
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const events = dataOf(await response.text());
  assert.equal(events.at(-1), "[DONE]");
  const chunks = events.slice(0, -1).map((data) => JSON.parse(data));
  const said = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  const { messages } = JSON.parse(body);
  assert.equal(said, messages[0].content);
  const { usage } = chunks.at(-1);
  assert.ok(usage.total_tokens > 0);
  assert.equal(usage.usedCUMilli, 3 * usage.total_tokens);
}

test("the URLs of backends replace the demo backends, and only their hosts are printed", async (t) => {
  const model = await startDemoModel({ tokenMs: 1 });
  t.after(() => model.close());
  const node = await startDemoNode();
  t.after(() => node.close());
  const env = {
    CONFIDENTIAL_CLASSIC_URL: `${model.url}/v1`,
    LEDGER_RPC_URL: `${node.url}/secret`,
  };
  await withDev(env, async (printed) => {
    assert.equal(printed.node, new URL(node.url).host);
    assert.doesNotMatch(JSON.stringify(printed), /secret/);
    await request(callsOf(printed)[1]!);
    assert.equal(printed.model, new URL(model.url).host);
    assert.deepEqual(callsOf(printed), printed.requests, "its models are not known");
    const response = await fetch(printed.chat_url!, {
      method: "POST",
      headers: { authorization: `Bearer ${printed.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: demoModelId, messages: [{ role: "user", content: "Hi" }] }),
    });
    const answer = (await response.json()) as { usage: { usedCUMilli: number } };
    assert.equal(answer.usage.usedCUMilli, 0, "no price and no rate was set");
  });
});

test("sluice dev also starts if the node does not answer", async () => {
  const node = await startDemoNode();
  await node.close();
  await withDev({ LEDGER_RPC_URL: node.url }, async (printed) => {
    const requests = callsOf(printed);
    assert.match(requests[1]!.body, /"params":\["0x[0-9a-f]{64}"\]/);
    const { json } = await request(requests[0]!);
    const error = { code: -32603, message: "Internal Error" };
    assert.deepEqual(json, { jsonrpc: "2.0", id: 1, error });
  });
});

test("a port that is in use is reported with its position and remedy, with exit code 1", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  // A server that listens on a port has an AddressInfo.
  const { port } = taken.address() as AddressInfo;
  try {
    const { code, error } = await failedDev({ ADMIN_PORT: String(port) });
    assert.equal(code, 1);
    const [, line] = /pipeline\.yaml:(\d+):1 {2}SLUICE_LISTEN_FAILED/.exec(error) ?? [];
    assert.match(shipped[Number(line) - 1] ?? error, /^admin:/);
    assert.match(error, new RegExp(`:${port}: .*in use`));
    assert.match(error, /PORT and ADMIN_PORT in the environment/);
    assert.doesNotMatch(error, /at .*\.ts:/);
  } finally {
    taken.close();
  }
});

test("sluice dev creates no key in an environment other than dev", async () => {
  const { code, error } = await failedDev({
    GATEWAY_ENV: "prod",
    GATEWAY_SECRET: "at-least-sixteen-characters",
  });
  assert.equal(code, 1);
  assert.match(error, /GATEWAY_ENV=dev only, not prod/);
});

test("without --json, the output shows the key, the addresses and four curl commands", async () => {
  const child = spawnDev([]);
  const exited = once(child, "exit");
  const lines: string[] = [];
  for await (const line of createInterface(child.stdout!)) {
    lines.push(line);
    if (line === "Press Ctrl-C to stop.") child.kill("SIGINT");
  }
  assert.deepEqual(await exited, [0, null]);
  assert.equal(lines.filter((line) => line.startsWith("curl -s http://127.0.0.1:")).length, 3);
  assert.equal(lines.filter((line) => line.startsWith("curl -sN http://127.0.0.1:")).length, 1);
  assert.match(lines.join("\n"), /chat +http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions/);
  assert.match(lines.join("\n"), /models +demo model/);
  assert.match(lines.join("\n"), /key +gateway_dev_[0-9a-f]{32} \(valid until \d{4}-\d\d-\d\d\)/);
  assert.match(lines.join("\n"), /pipeline +http:\/\/127\.0\.0\.1:\d+\/pipelines/);
});
