/** `sluice worker`, as a process and as a command. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, test, type TestContext } from "node:test";
import { UsageError } from "../../../../src/commands/command.ts";
import { worker } from "../../../../plugins/confidential/commands/worker.ts";
import { ending } from "../enclave/client.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import {
  chunk,
  connectTo,
  demoModelId,
  params,
  startModel,
  startScriptedModel,
} from "../worker/fixture.ts";
import { openSocket } from "../worker/socket.ts";
import { commandLine } from "../../../commands/command-line.ts";

const main = join(import.meta.dirname, "../../../../src/main.ts");
const prompt = params.messages[0]?.content ?? "";

interface WorkerProcess {
  readonly child: ChildProcess;
  readonly ready: Readonly<Record<string, string>>;
  readonly written: () => string;
  readonly exited: Promise<unknown[]>;
  /** The working directory, home and temporary folder of the process. It is empty at the start. */
  readonly folder: string;
}

async function spawnWorker(
  t: TestContext,
  upstream: string,
  args: readonly string[] = [],
  nodeArgs: readonly string[] = [],
): Promise<WorkerProcess> {
  const folder = temporaryFolder(t);
  const command = ["worker", "--json", "--upstream", upstream, "--model", demoModelId];
  const options = ["--network", "confidential-alpha", "--listen", "127.0.0.1:0", ...args];
  const argv = [...nodeArgs, main, ...command, "--evidence", "simulated", ...options];
  const child = spawn(process.execPath, argv, {
    cwd: folder,
    env: {
      ...process.env,
      LOG_LEVEL: "trace",
      GATEWAY_ENV: "dev",
      HOME: folder,
      TMPDIR: folder,
      XDG_CACHE_HOME: folder,
      XDG_CONFIG_HOME: folder,
      XDG_DATA_HOME: folder,
      XDG_RUNTIME_DIR: folder,
      XDG_STATE_HOME: folder,
      NODE_DISABLE_COMPILE_CACHE: "1",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  let written = "";
  child.stderr.on("data", (piece) => (written += piece));
  child.stdout.on("data", (piece) => (written += piece));
  const exited = once(child, "exit");
  const lines = createInterface({ input: child.stdout });
  const [line] = (await Promise.race([once(lines, "line"), exited])) as [unknown];
  assert.ok(typeof line === "string", `it did not start: ${written}`);
  const ready = JSON.parse(line) as Record<string, string>;
  return { child, ready, written: () => written, exited, folder };
}

describe("sluice worker, as a process", () => {
  test("prints one ready line, answers, drains on SIGTERM and exits with 0", async (t) => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<ServerResponse>();
    const upstream = await startScriptedModel(t, (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(chunk({ content: "The hidden" }));
      begin(response);
    });
    const started = await spawnWorker(t, upstream, ["--token", "worker-token"]);
    const { ready, child, exited, written, folder } = started;
    assert.deepEqual(Object.keys(ready).toSorted(), ["simulated_root", "status_url", "url"]);
    const { url = "", status_url: statusUrl = "" } = ready;
    assert.match(url, /^ws:\/\/127\.0\.0\.1:\d+\/cstream\/1$/);
    await assert.rejects(openSocket(t, url, { token: "wrong" }), /401/);
    const { wire, client } = await connectTo(t, url, { token: "worker-token" });
    for (const frame of client.request(1, params)) wire.binary(frame);
    const response = await begun;
    child.kill("SIGTERM");
    const drained = async (): Promise<boolean> => {
      const status = (await (await fetch(statusUrl)).json()) as {
        readonly workers: readonly { readonly state: string }[];
      };
      return status.workers.every(({ state }) => state === "draining");
    };
    while (!(await drained()));
    response.end(`${chunk({ content: " answer" }, "stop")}data: [DONE]\n\n`);
    const { text, report } = await client.answer(1);
    assert.equal(text, "The hidden answer");
    assert.equal(report.finish, "stop");
    assert.equal((await ending(wire)).code, 1000);
    assert.deepEqual(await exited, [0, null]);
    // Keys and prompts stay in the memory of the process.
    assert.deepEqual(readdirSync(folder), []);
    const known = [client.attested.keysetDigest, ready["simulated_root"] ?? ""];
    const unknown = known.reduce((rest, one) => rest.replaceAll(one, ""), written());
    assert.doesNotMatch(unknown, /[\w+/=-]{22}/, "nothing else is as long as half a key");
    assert.doesNotMatch(written(), /three four|hidden|worker-token/);
    assert.match(written(), /a keyset has been attested/);
    assert.equal(written().includes(prompt), false);
  });

  test("runs without permission to write files, and warns of a model that its server does not list", async (t) => {
    // Node before 25 lets every process connect.
    const net = process.allowedNodeEnvironmentFlags.has("--allow-net") ? ["--allow-net"] : [];
    const confined = ["--permission", "--allow-fs-read=*", ...net];
    const model = await startModel(t);
    const started = await spawnWorker(t, model, ["--model", "Acme/None"], confined);
    const { child, written, ready } = started;
    while (!written().includes("Models listed")) {
      await once(child.stderr ?? assert.fail(), "data");
    }
    assert.match(
      written(),
      /^Warning: http:\S+ does not list the model "Acme\/None", .* Models listed: "Demo\/Echo-1"\.$/m,
    );
    const { client } = await connectTo(t, ready["url"] ?? "");
    assert.equal((await client.ask(params)).text, prompt);
  });

  test("ends with 1 if the address is in use", async (t) => {
    const { host } = new URL(await startModel(t));
    await assert.rejects(spawnWorker(t, "http://127.0.0.1:9", ["--listen", host]), /EADDRINUSE/);
  });
});

describe("sluice worker", () => {
  const needed = ["--upstream", "http://127.0.0.1:9", "--model", "m", "--network", "n"];

  const wrong: readonly (readonly [readonly string[], RegExp])[] = [
    [["--model", "m", "--network", "n"], /missing option --upstream/],
    [["--upstream", "http://127.0.0.1:9", "--network", "n"], /missing option --model/],
    [["--upstream", "http://127.0.0.1:9", "--model", "m"], /missing option --network/],
    [[...needed, "--upstream", "127.0.0.1:9"], /--upstream/],
    [[...needed, "--upstream", "ftp://host"], /--upstream/],
    [[...needed, "--model", ""], /--model/],
    [[...needed, "--listen", "8090"], /--listen/],
    [[...needed, "--listen", "127.0.0.1:70000"], /--listen/],
    [[...needed, "--listen", "::1:8090"], /--listen/],
    [[...needed, "--coefficient", "1.5"], /--coefficient/],
    [[...needed, "--coefficient=-1"], /--coefficient/],
    [[...needed, "--coefficient", "1000001"], /--coefficient/],
    [[...needed, "--evidence", "sgx"], /--evidence/],
    [[...needed, "--advertise", "worker:1"], /--advertise/],
    [[...needed, "--pccs", "pccs"], /--pccs/],
    [[...needed, "--pccs", "https://pccs", "--collateral", "c.json"], /--pccs/],
    [[...needed, "--token", ""], /--token/],
    [[...needed, "start"], /unexpected argument "start"/],
  ];
  test("refuses wrong options", async (t) => {
    const { run } = commandLine(t);
    for (const [argv, message] of wrong)
      await assert.rejects(
        run(worker, ...argv),
        (error) => error instanceof UsageError && message.test(error.message),
        String(message),
      );
  });

  test("refuses simulated evidence in prod, and explains how to allow it", async (t) => {
    const { run } = commandLine(t, "prod");
    const { code, err, out } = await run(worker, ...needed, "--evidence", "simulated");
    assert.equal(code, 1);
    assert.deepEqual(out, []);
    assert.match(err.join("\n"), /CONFIDENTIAL_ALLOW_SIMULATED=1/);
  });

  test("fails on a machine without a TEE, and never uses simulated evidence by itself", async (t) => {
    const { run } = commandLine(t);
    const { code, err, out } = await run(worker, ...needed);
    assert.equal(code, 1);
    assert.deepEqual(out, []);
    assert.match(err.join("\n"), /cannot get evidence \(auto\)/);
    assert.match(err.join("\n"), /--evidence simulated/);
  });
});
