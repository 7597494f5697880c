/** `sluice connect`: what it prints, serves and refuses. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { UsageError, type CommandContext } from "../../../../src/commands/command.ts";
import { connect } from "../../../../plugins/confidential/commands/connect.ts";
import { clientSettings } from "../../../../plugins/confidential/commands/connect-output.ts";
import { platform, startFakeGateway, type Script } from "../client/fake-gateway.ts";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { models, policyFor } from "../sealed-networks/local-gateway.ts";

const inTime = { timeout: 60_000 };
const simulated = ["--allow-simulated", "--simulated-root", platform.root];
const always = ["--key", "gateway_dev_key", "--port", "0"];

async function startRemote(
  t: TestContext,
  script: Script = {},
  policy?: () => Promise<unknown>,
): Promise<string> {
  const remote = await startFakeGateway(t, script, { at: Date.now() });
  remote.models = models;
  remote.policy = await policy?.();
  return remote.url;
}

/** Runs the command until it is ready, calls `use`, and returns the output. `stop`: ends it before it is ready. */
async function serve(
  t: TestContext,
  argv: readonly string[],
  use: (out: string) => Promise<void> | void,
  stop?: Promise<void>,
): Promise<{ readonly code: number; readonly err: string }> {
  const stopping = new AbortController();
  const { promise: ready, resolve } = Promise.withResolvers<string>();
  const err: string[] = [];
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: { ...connect.options, json: { type: "boolean" } },
    allowPositionals: true,
  });
  const context: CommandContext = {
    env: {},
    print: resolve,
    printToStderr: (line) => void err.push(line),
    configFile: "",
    signal: stopping.signal,
    json: values["json"] === true,
  };
  const running = connect.run(context, values, positionals);
  try {
    await Promise.race([ready.then(use), running, ...(stop === undefined ? [] : [stop])]);
  } finally {
    stopping.abort();
    await running;
  }
  return { code: await running, err: err.join("\n") };
}

describe("sluice connect", () => {
  test("prints what it verified, serves, and stops with exit code 0", inTime, async (t) => {
    const url = await startRemote(t);
    const folders = (): string[] =>
      readdirSync(tmpdir()).filter((name) => name.startsWith("sluice-connect-"));
    const before = folders();
    const listeners = process.listenerCount("SIGHUP");
    const settings = ["--configure", "openai", "--max-price", "20"];
    const { code, err } = await serve(
      t,
      [url, ...always, ...simulated, ...settings],
      async (out) => {
        assert.match(out, /^SIMULATED: no hardware attests the enclave\./);
        assert.match(out, new RegExp(`image +${platform.imageHash}`));
        assert.match(
          out,
          /passed +connection: the gateway accepts encrypted sessions.*\n +passed +answer: /,
        );
        assert.match(out, /accepted +not_simulated: the evidence is simulated: no hardware/);
        assert.match(
          out,
          /skipped +policy: no policy key is pinned; not checked: the pinned key signed/,
        );
        const [, base = ""] = /OPENAI_BASE_URL=(\S+)/.exec(out) ?? [];
        const [, key = ""] = /OPENAI_API_KEY='(\S+)'/.exec(out) ?? [];
        const headers = { authorization: `Bearer ${key}` };
        const listed = await fetch(`${base}/models`, { headers });
        assert.match(await listed.text(), /"id":"demo"/);
      },
    );
    assert.equal(code, 0, err);
    assert.deepEqual(folders(), before, "the temporary folder was removed");
    assert.equal(process.listenerCount("SIGHUP"), listeners);
  });

  test("prints one JSON document, and keeps the local key in a file", inTime, async (t) => {
    const url = await startRemote(t);
    const file = join(commandLine(t).folder, "key");
    const argv = [
      url,
      ...always,
      ...simulated,
      "--key-file",
      file,
      "--configure",
      "codex",
      "--json",
    ];
    const keys: unknown[] = [];
    for (let run = 0; run < 2; run++) {
      const { code } = await serve(t, argv, async (out) => {
        const { key, model, verification, configuration } = JSON.parse(out) as Record<
          string,
          unknown
        >;
        keys.push(key);
        assert.equal(model, "demo");
        assert.equal((verification as Record<string, unknown>)["image"], platform.imageHash);
        assert.match(String(configuration), /wire_api = "responses"/);
      });
      assert.equal(code, 0);
    }
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(keys, [readFileSync(file, "utf8").trim(), keys[0]]);
  });

  test("ignores the databases of other programs", inTime, async (t) => {
    const others = { DATABASE_URL: "postgres://127.0.0.1/other", REDIS_URL_FILE: "/nowhere" };
    const { run } = commandLine(t, "dev", others);
    const { err } = await run(connect, "http://127.0.0.1:1", ...always, ...simulated);
    assert.match(err.join("\n"), /^refused: .*\/v1\/models could not be read/m);
  });

  test("warns of a key that others can read", inTime, async (t) => {
    const { run, folder } = commandLine(t);
    const file = join(folder, "key");
    writeFileSync(file, "local_0123456789abcdef\n", { mode: 0o644 });
    // Nothing listens there, so the list of models cannot be read.
    const url = "http://0.0.0.0:1";
    const { code, err } = await run(connect, url, ...always, ...simulated, "--key-file", file);
    assert.equal(code, 1);
    const printed = err.join("\n");
    assert.match(printed, /^warning: .*0\.0\.0\.0.* has no TLS/m);
    assert.match(printed, /^warning: other users can read/m);
    assert.match(printed, /^refused: .*\/v1\/models could not be read: ECONNREFUSED/m);
  });

  // Each program runs with nothing but the printed settings.
  const programs: readonly { client: keyof typeof clientSettings; runs: string }[] = [
    {
      client: "claude",
      runs: `import Anthropic from "@anthropic-ai/sdk";
        const { ANTHROPIC_DEFAULT_OPUS_MODEL: model } = process.env;
        const messages = [{ role: "user", content: "hi" }];
        const answer = await new Anthropic().messages.create({ model, max_tokens: 64, messages });
        console.log(answer.content[0].text);`,
    },
    {
      client: "env",
      runs: `import OpenAI from "openai";
        const messages = [{ role: "user", content: "hi" }];
        const model = process.env.SLUICE_MODEL;
        const answer = await new OpenAI().chat.completions.create({ model, messages });
        console.log(answer.choices[0].message.content);`,
    },
    {
      client: "opencode",
      // opencode passes the options to the package that the file names.
      runs: `import { readFileSync } from "node:fs";
        const { model, provider } = JSON.parse(readFileSync(0, "utf8"));
        const [name, id] = model.split("/");
        const { npm, options, models } = provider[name];
        if (!(id in models)) throw new Error("the model is not listed");
        const { createOpenAICompatible } = await import(npm);
        const prompt = [{ role: "user", content: [{ type: "text", text: "hi" }] }];
        const answer = await createOpenAICompatible({ name, ...options })(id).doGenerate({ prompt });
        console.log(answer.content[0].text);`,
    },
  ];
  for (const { client, runs } of programs) {
    test(`a program gets an answer with the settings for ${client}`, inTime, async (t) => {
      const url = await startRemote(t);
      const argv = [url, ...always, ...simulated, "--json", "--configure", client];
      const { code, err } = await serve(t, argv, async (out) => {
        const { configuration } = JSON.parse(out) as { configuration: string };
        const isJson = client === "opencode";
        // `set -a` exports the variables of \`env\`, which is a file and not a shell script.
        const shell = `set -a\n${isJson ? "" : configuration}\nexec "$NODE" --input-type=module --eval "$RUNS"`;
        const env = { PATH: process.env["PATH"], NODE: process.execPath, RUNS: runs };
        const program = spawn("sh", ["-c", shell], {
          env,
          cwd: join(import.meta.dirname, "../../../.."),
        });
        program.stdin.end(isJson ? configuration : "");
        const [answered, failed] = await Promise.all([text(program.stdout), text(program.stderr)]);
        assert.equal(answered.trim(), "Hello", failed);
      });
      assert.equal(code, 0, err);
    });
  }

  test("quotes the settings of programs", () => {
    const settings = clientSettings.env({ url: "http://127.0.0.1:1", key: "k", model: "it's $x" });
    assert.match(settings, /^SLUICE_MODEL='it'\\''s \$x'$/m);
  });

  const signer = createSigner();
  const pinned = [...simulated, "--policy-key", toBase64Url(signer.publicKey)];
  const { imageHash } = platform;

  test("accepts a policy document that the pinned key has signed", inTime, async (t) => {
    const url = await startRemote(t, {}, () => policyFor(imageHash, signer, Date.now()));
    const { code, err } = await serve(t, [url, ...always, ...pinned], (out) =>
      assert.match(out, /passed +policy: the pinned key signed/),
    );
    assert.equal(code, 0, err);
  });

  const refusals: readonly (readonly [
    name: string,
    says: RegExp,
    argv: readonly string[],
    script?: Script,
  ])[] = [
    [
      "a key that the gateway does not accept",
      /the check connection: the gateway refused the connection with status 401/,
      simulated,
      { status: 401 },
    ],
    ["simulated evidence", /^refused: the check not_simulated: /m, ["--image-hash", "any"]],
    [
      "a network without models",
      /lists no model with evidence/,
      [...simulated, "--network", "other"],
    ],
    ["a model that is not listed", /lists no model other with/, [...simulated, "--model", "other"]],
  ];
  for (const [name, says, argv, script] of refusals) {
    test(`refuses ${name} with exit code 1`, inTime, async (t) => {
      const url = await startRemote(t, script);
      const { code, err } = await commandLine(t).run(connect, url, ...always, ...argv);
      assert.equal(code, 1);
      assert.match(err.join("\n"), says);
    });
  }

  test("a stop before it is ready does not wait for the gateway", inTime, async (t) => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    // It accepts connections, and does not answer.
    const silent = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => resolve());
    });
    t.after(() => silent.close());
    await new Promise<void>((listening) => silent.listen(0, "127.0.0.1", listening));
    // A server that listens on TCP has an address of this type.
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const argv = [url, ...always, ...simulated];
    const { code, err } = await serve(t, argv, () => assert.fail("it is not ready"), asked);
    assert.equal(code, 0, err);
    assert.equal(err, "");
  });

  test("refuses wrong options", inTime, async (t) => {
    const { run, folder } = commandLine(t);
    const url = "http://127.0.0.1:1";
    const short = join(folder, "short");
    writeFileSync(short, "short\n");
    const wrong: readonly (readonly [argv: readonly string[], says: RegExp])[] = [
      [[], /missing argument URL/],
      [["nowhere", ...always, ...simulated], /expected a URL/],
      [[url, url], /unexpected argument/],
      [[url, ...simulated], /missing or invalid --key/],
      [[url, ...always], /nothing says which images may run/],
      [[url, ...always, "--allow-simulated"], /needs --simulated-root/],
      [[url, ...always, ...simulated, "--without-crl"], /needs --min-tcb/],
      [[url, ...always, "--policy-key", "short"], /policyKey must be base64url of 32 bytes/],
      [[url, ...always, "--image-hash", "ab"], /--image-hash: expected a SHA-256 in hex, or any/],
      [[url, ...always, "--simulated-root", "-"], /--simulated-root: expected a certificate/],
      [[url, ...always, ...simulated, "--port", "x"], /--port: expected a port/],
      [[url, ...always, ...simulated, "--max-price", "x"], /--max-price: expected a decimal/],
      [[url, ...always, ...simulated, "--configure", "vim"], /--configure: /],
      [[url, ...always, ...simulated, "--key-file", short], /does not contain a key/],
      [[url, ...always, ...simulated, "--key-file", join(folder, "no", "key")], /cannot write/],
    ];
    for (const [argv, says] of wrong) {
      await assert.rejects(
        run(connect, ...argv),
        (error) => error instanceof UsageError && says.test(error.message),
        String(says),
      );
    }
    assert.ok(!existsSync(join(folder, "no")));
  });
});
