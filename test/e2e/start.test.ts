/** `npm start` as a user runs it: the process, its output, the requests that it prints, and its end. */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import type { CommandContext } from "../../src/commands/command.ts";
import { dev } from "../../src/commands/dev.ts";
import { verify } from "../../plugins/confidential/commands/verify.ts";
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { temporaryFolder } from "../store/folder.ts";
import { ask } from "./ask.ts";
import { main } from "./gateway-process.ts";
import { shipped } from "./shipped-gateway.ts";
import { dataOf } from "../plugins/inference/networks/chat-events.ts";

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

/** The environment without what would change the outcome. */
const {
  LEDGER_RPC_URL: _,
  GATEWAY_ENV: __,
  SLUICE_CONFIG: ___,
  CONFIDENTIAL_CLASSIC_URL: ____,
  TOKEN_USD_RATE: _____,
  ...inherited
} = process.env;

const envOf = (data: string, more: Env = {}) => ({
  ...inherited,
  PORT: "0",
  ADMIN_PORT: "0",
  DATA_DIR: data,
  ...more,
});

/** Runs `sluice dev` in this process until `work` has ended. */
async function withDev(
  t: TestContext,
  env: Env,
  work: (text: string) => Promise<void> | void,
  json = true,
): Promise<{ readonly code: unknown; readonly error: string }> {
  const ending = new AbortController();
  const printed = Promise.withResolvers<string>();
  let error = "";
  const running = dev.run(
    {
      env: envOf(join(temporaryFolder(t), "data"), env),
      print: printed.resolve,
      printToStderr: (line) => void (error += line),
      configFile: fileURLToPath(new URL("../../pipeline.yaml", import.meta.url)),
      signal: ending.signal,
      json,
    },
    {},
    [],
  );
  try {
    const text = await Promise.race([printed.promise, running.then(() => undefined)]);
    if (text !== undefined) await work(text);
  } finally {
    ending.abort();
  }
  return { code: await running, error };
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
  const env = envOf(join(temporaryFolder(t), "data"));
  const child = spawn(process.execPath, [main, "dev", "--json"], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const exited = once(child, "close");
  const printed = await firstDocument(child);
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
  child.kill("SIGINT");
  assert.deepEqual(await exited, [0, null]);

  await t.test("npm start continues with the same data, and ends with the gateway", async () => {
    const npm = spawn("npm", ["start", "--silent", "--", "--json"], {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      env,
      // A gateway that outlives npm would keep the pipe open and block this test.
      stdio: ["ignore", "pipe", "inherit"],
    });
    const closed = once(npm, "close");
    try {
      const next = await firstDocument(npm);
      assert.equal(next.workspace_id, printed.workspace_id);
      assert.notEqual(next.key, printed.key);
      const [one] = next.requests;
      assert.ok(one !== undefined);
      const authorization = `Bearer ${printed.key}`;
      await request({ ...one, headers: { ...one.headers, authorization } });
    } finally {
      npm.kill("SIGTERM");
      npm.stdout.resume();
      await closed;
    }
  });
});

/** Rejects if the process ends before it prints one. */
async function firstDocument(child: ChildProcess): Promise<Printed> {
  for await (const line of createInterface(child.stdout!)) {
    // `sluice dev --json` prints this line; the tests compare its members.
    if (line.startsWith("{")) return JSON.parse(line) as Printed;
  }
  return assert.fail("sluice dev ended at once");
}

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

/** Runs `sluice verify --json` in this process. */
async function verifying(...args: string[]): Promise<{ code: number; out: string }> {
  const options = { ...verify.options };
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  let out = "";
  const context: CommandContext = {
    env: {},
    print: (line) => void (out += line),
    printToStderr: () => {},
    configFile: "",
    signal: AbortSignal.timeout(60_000),
    json: true,
  };
  return { code: await verify.run(context, values, positionals), out };
}

async function assertIsSimulated(printed: Printed): Promise<void> {
  const { stream_url: streamUrl = "", key, simulated_root: root = "" } = printed;
  const model = ["--network", "confidential-classic", "--model", demoModelId];
  const trust = ["--image-hash", "any", "--termination", "gateway", "--simulated-root", root];
  const args = [new URL(streamUrl).origin, "--key", key, ...model, ...trust];
  const { code, out } = await verifying(...args, "--allow-simulated");
  const { accepted, verified, assurance } = JSON.parse(out) as Record<string, unknown>;
  assert.deepEqual([code, accepted, verified, assurance], [0, true, false, "simulated"]);
  assert.equal((await verifying(...args)).code, 1);
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
  await withDev(t, env, async (text) => {
    assert.doesNotMatch(text, /secret/);
    const printed = JSON.parse(text) as Printed;
    assert.equal(printed.node, new URL(node.url).host);
    await request(callsOf(printed)[1]!);
    assert.equal(printed.model, new URL(model.url).host);
    assert.deepEqual(callsOf(printed), printed.requests, "its models are not known");
    const { json: answer } = await ask(printed.chat_url!, {
      key: printed.key,
      body: { model: demoModelId, messages: [{ role: "user", content: "Hi" }] },
    });
    assert.equal(answer.usage.usedCUMilli, 0, "no price and no rate was set");
  });
});

test("sluice dev also starts if the node does not answer", async (t) => {
  const node = await startDemoNode();
  await node.close();
  await withDev(t, { LEDGER_RPC_URL: node.url }, async (text) => {
    const requests = callsOf(JSON.parse(text) as Printed);
    assert.match(requests[1]!.body, /"params":\["0x[0-9a-f]{64}"\]/);
    const { json } = await request(requests[0]!);
    const error = { code: -32603, message: "Internal Error" };
    assert.deepEqual(json, { jsonrpc: "2.0", id: 1, error });
  });
});

test("a port that is in use is reported with its position and remedy, with exit code 1", async (t) => {
  const taken = createServer().listen(0, "127.0.0.1");
  t.after(() => taken.close());
  await once(taken, "listening");
  // A server that listens on a port has an AddressInfo.
  const { port } = taken.address() as AddressInfo;
  const { code, error } = await withDev(t, { ADMIN_PORT: String(port) }, () => assert.fail());
  assert.equal(code, 1);
  const [, line] = /pipeline\.yaml:(\d+):1 {2}SLUICE_LISTEN_FAILED/.exec(error) ?? [];
  assert.match(shipped.split("\n")[Number(line) - 1] ?? error, /^admin:/);
  assert.match(error, new RegExp(`:${port}: .*in use`));
  assert.match(error, /PORT and ADMIN_PORT in the environment/);
  assert.doesNotMatch(error, /at .*\.ts:/);
});

test("sluice dev creates no key in an environment other than dev", async (t) => {
  const env = { GATEWAY_ENV: "prod", GATEWAY_SECRET: "at-least-sixteen-characters" };
  const { code, error } = await withDev(t, env, () => assert.fail());
  assert.equal(code, 1);
  assert.match(error, /GATEWAY_ENV=dev only, not prod/);
});

test("without --json, the output shows the key, the addresses and four curl commands", async (t) => {
  const show = (text: string): void => {
    const lines = text.split("\n");
    assert.equal(lines.at(-1), "Press Ctrl-C to stop.");
    assert.equal(lines.filter((line) => line.startsWith("curl -s http://127.0.0.1:")).length, 3);
    assert.equal(lines.filter((line) => line.startsWith("curl -sN http://127.0.0.1:")).length, 1);
    assert.match(text, /chat +http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions/);
    assert.match(text, /models +demo model/);
    assert.match(text, /key +gateway_dev_[0-9a-f]{32} \(valid until \d{4}-\d\d-\d\d\)/);
    assert.match(text, /pipeline +http:\/\/127\.0\.0\.1:\d+\/pipelines/);
  };
  assert.equal((await withDev(t, {}, show, false)).code, 0);
});
