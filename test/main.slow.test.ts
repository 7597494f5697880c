/** The command line as a process: which command, what is printed where, the exit code, and the completion scripts. */
import assert from "node:assert/strict";
import { spawn, spawnSync, execFile } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { version } from "../src/base/version.ts";
import { temporaryFolder } from "./store/folder.ts";
import { allCommands } from "../src/commands/all.ts";
import { commandLine } from "./commands/command-line.ts";
import { installPackage } from "./package/package-fixture.ts";

const installed = await installPackage();
after(() => installed[Symbol.dispose]());
/** The command of the installed package, which starts in half the time that the sources take. */
const { main } = installed;
const source = join(import.meta.dirname, "../src/main.ts");

/** The environment without what would change the outcome. */
const { SLUICE_CONFIG: _, DATA_DIR: __, GATEWAY_ENV: ___, ...inherited } = process.env;

interface Place {
  readonly nodeArgs?: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly file?: string;
}

function sluice(args: readonly string[], { nodeArgs = [], cwd, env, file = main }: Place = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...nodeArgs, file, ...args], {
    encoding: "utf8",
    cwd,
    env: { ...inherited, ...env },
  });
  return { status, stdout, stderr };
}

test("--help lists the commands on standard output, exit 0", () => {
  const { status, stdout, stderr } = sluice(["--help"], { file: source });
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^usage: sluice <command>[^]*\n {2}check +check pipeline\.yaml/);
});

test("without a command, the same text is printed to standard error, with exit code 2", () => {
  const { status, stdout, stderr } = sluice([]);
  assert.equal(status, 2);
  assert.equal(stdout, "");
  assert.match(stderr, /^usage: sluice <command>/);
});

test("a wrong option points at the command's own help, exit 2", () => {
  const { status, stderr } = sluice(["check", "--wirte-schema", "x"]);
  assert.equal(status, 2);
  assert.match(stderr, /^sluice check: .*--wirte-schema[^]*See: sluice check --help\n$/);
});

test("a plugin that ends the process fails the check and the start, exit 1", (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "ending.mjs"), "process.exit(0);\n");
  writeFileSync(
    join(cwd, "pipeline.yaml"),
    `version: 1
plugins: { ending: ./ending.mjs }
routes: [{ path: /x, run: [ending], to: models }]
`,
  );
  for (const command of ["check", "start"]) {
    const { status, stderr } = sluice([command], { cwd });
    assert.equal(status, 1, command);
    assert.match(stderr, /the process ended before the command, .* a plugin called process\.exit/);
  }
});

test("a Node version that is too old is refused with the required version, with exit code 1", () => {
  const old = `Object.defineProperty(process, "versions", { value: { node: "20.20.2" } })`;
  const { status, stderr } = sluice(["--help"], {
    nodeArgs: ["--import", `data:text/javascript,${old}`],
    file: source,
  });
  assert.equal(status, 1);
  assert.equal(
    stderr,
    "sluice requires Node 24 or later; this is Node 20.20.2. Install a newer one: npm install node, or https://nodejs.org\n",
  );
});

test("an unknown command suggests the nearest one", () => {
  assert.match(
    sluice(["strat"]).stderr,
    /^sluice: unknown command "strat"; did you mean "start"\?/,
  );
});

test("the version is printed by -v, and by --version as JSON", () => {
  assert.deepEqual(sluice(["-v"]), { status: 0, stdout: `${version}\n`, stderr: "" });
  const { node } = process.versions;
  assert.deepEqual(JSON.parse(sluice(["--version", "--json"]).stdout), { version, node });
});

// D1: these commands took the file that ships with Sluice, and kept accounts beside it, in node_modules.
test("commands that store data need the user's own pipeline.yaml, and explain how to create one", (t) => {
  const cwd = temporaryFolder(t);
  for (const args of [
    ["start"],
    ["workspaces", "create", "--name", "acme", "--plan", "free"],
    ["explain", "some-id"],
  ]) {
    const { status, stdout, stderr } = sluice(args, { cwd });
    assert.deepEqual([status, stdout], [1, ""], args.join(" "));
    assert.match(
      stderr,
      /^pipeline\.yaml:1:1 {2}SLUICE_FILE_MISSING .*\n.*sluice init/,
      args.join(" "),
    );
  }
  assert.deepEqual(readdirSync(cwd), []);
});

test("check falls back on the file that ships with Sluice", (t) => {
  const { status, stdout } = sluice(["check"], { cwd: temporaryFolder(t) });
  assert.equal(status, 0);
  assert.match(stdout, /pipeline\.yaml has no faults\.[^]*run npx sluice init\./);
});

test("--config, then SLUICE_CONFIG, then ./pipeline.yaml", (t) => {
  const cwd = temporaryFolder(t);
  const named = (config?: string, env: Record<string, string> = {}): string => {
    const args = config === undefined ? ["keys", "list"] : ["keys", "list", "--config", config];
    return sluice(args, { cwd, env }).stderr;
  };
  assert.match(named("a.yaml", { SLUICE_CONFIG: "b.yaml" }), /^a\.yaml:/);
  assert.match(named(undefined, { SLUICE_CONFIG: "b.yaml" }), /^b\.yaml:/);
  assert.match(named(undefined, { SLUICE_CONFIG: "" }), /^pipeline\.yaml:/);
});

test("dev with the file that ships with Sluice keeps its data in the working folder", async (t) => {
  for (const [env, data] of [
    [{}, "data"],
    [{ DATA_DIR: "kept" }, "kept"],
  ] as const) {
    const cwd = temporaryFolder(t);
    // Both streams in one, in the order in which they were written.
    const child = spawn("sh", ["-c", 'exec "$@" 2>&1', "sh", process.execPath, main, "dev"], {
      cwd,
      env: { ...inherited, PORT: "0", ADMIN_PORT: "0", ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(child, "exit");
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      if (line === "Press Ctrl-C to stop.") child.kill("SIGTERM");
    }
    await exited;
    assert.equal(lines[0], `Sluice ${version} is running.`);
    assert.match(lines.join("\n"), /config +the file that ships with Sluice/);
    assert.ok(existsSync(join(cwd, data, "state.db")), "accounts");
  }
});

const pipeline = `version: 1
environment: \${GATEWAY_ENV:-dev}
server: { port: 0, drainDelaySeconds: 0 }
admin: { port: 0 }
store: { data: "\${DATA_DIR:-./data}" }
upstreams: { web: { urls: "http://127.0.0.1:1" } }
unmatched: []
routes:
  - { path: /web, run: [], to: { forward: { upstream: web } } }
`;

// D18 and D22
test("start prints only JSON lines, including its addresses and the missing workspace", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "pipeline.yaml"), pipeline);
  for (const isFirst of [true, false]) {
    const child = spawn(process.execPath, [main, "start"], {
      cwd,
      env: inherited,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let complaints = "";
    child.stderr.on("data", (chunk) => (complaints += String(chunk)));
    const exited = once(child, "exit");
    const lines: Record<string, unknown>[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      // Throws where a line is not JSON.
      lines.push(JSON.parse(line) as Record<string, unknown>);
      if (lines.length === (isFirst ? 2 : 1)) child.kill("SIGTERM");
    }
    assert.deepEqual(await exited, [0, null], complaints);
    const [listening, hint] = lines;
    assert.equal(listening?.["msg"], "the gateway is listening");
    assert.match(String(listening?.["url"]), /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.equal(listening?.["version"], version);
    if (isFirst) assert.match(String(hint?.["msg"]), /no workspace yet/);
    assert.equal(complaints, "");
    sluice(["workspaces", "create", "--name", "acme", "--plan", "free"], { cwd });
  }
});

const isLinux = process.platform === "linux";

test(
  "a worker continues if its standard error is on a full disk",
  { skip: !isLinux },
  async (t) => {
    const full = openSync("/dev/full", "w");
    const options = ["--model", "m", "--network", "n", "--evidence", "simulated", "--json"];
    const address = ["--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"];
    const child = spawn(process.execPath, [main, "worker", ...options, ...address], {
      cwd: temporaryFolder(t),
      env: inherited,
      stdio: ["ignore", "pipe", full],
    });
    closeSync(full);
    const exited = once(child, "exit");
    assert.ok(child.stdout);
    for await (const line of createInterface({ input: child.stdout })) {
      const { status_url: status } = JSON.parse(line) as { readonly status_url: string };
      assert.equal((await fetch(status)).status, 200);
      child.kill("SIGTERM");
    }
    assert.deepEqual(await exited, [0, null]);
  },
);

test("--env-file sets the variables that are not set already", (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "pipeline.yaml"), pipeline);
  writeFileSync(join(cwd, "my.env"), "DATA_DIR=./from-file\nGATEWAY_ENV=stage\n");
  const create = "workspaces create --name acme --plan free --env-file my.env".split(" ");
  assert.equal(sluice(create, { cwd }).status, 0);
  assert.ok(existsSync(join(cwd, "from-file", "state.db")));
  assert.equal(sluice(create, { cwd, env: { DATA_DIR: "./from-shell" } }).status, 0);
  assert.ok(existsSync(join(cwd, "from-shell", "state.db")));
});

test("an --env-file that is a folder is wrong usage", (t) => {
  const cwd = temporaryFolder(t);
  mkdirSync(join(cwd, "folder"));
  const { status, stderr } = sluice(["keys", "list", "--env-file", "folder"], { cwd });
  assert.notEqual(status, 0);
  assert.match(stderr, /folder/);
});

test("check names a plugin that never stops, and exits with 1", async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(
    join(folder, "stuck.js"),
    `export default {
      kind: "surface", name: "stuck", description: "Never stops.",
      start: () => ({ answer: () => ({ status: 200 }), stop: () => new Promise(() => {}) }),
    };`,
  );
  writeFileSync(
    join(folder, "pipeline.yaml"),
    `version: 1\nplugins: { stuck: ./stuck.js }\nroutes:\n  - { path: /x, to: stuck }\n`,
  );
  const { promise, resolve } = Promise.withResolvers<[number | string | null, string]>();
  const child = execFile(process.execPath, [main, "check"], { cwd: folder }, (error, out, err) =>
    resolve([error === null ? 0 : (child.exitCode ?? "killed"), out + err]),
  );
  const [code, text] = await promise;
  assert.equal(code, 1, text);
  assert.match(text, /SLUICE_PLUGIN_STOP.*plugin enforce stuck did not stop within 4 s/);
});

const scripts = new Map<string, string>();

function script(shell: string): string {
  const found = scripts.get(shell) ?? printedScript(shell);
  scripts.set(shell, found);
  return found;
}

function printedScript(shell: string): string {
  const { stdout, stderr } = spawnSync(process.execPath, [main, "completion", shell], {
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return stdout;
}

test("bash completes commands, subcommands and options", (t) => {
  const file = join(temporaryFolder(t), "completion.bash");
  writeFileSync(file, script("bash"));
  /** The last word is the one that is completed. */
  const complete = (...words: readonly string[]): string[] => {
    const run = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync("bash", ["--norc", "-c", run, "bash", file, ...words], {
      encoding: "utf8",
    });
    assert.equal(stderr, "");
    return stdout.split("\n").filter((word) => word !== "");
  };
  assert.deepEqual(complete("sluice", "st"), ["start", "store"]);
  assert.deepEqual(complete("sluice", "keys", "re"), ["revoke"]);
  assert.deepEqual(complete("sluice", "keys", "create", "--cu"), ["--cu-24h", "--cu-30d"]);
  assert.deepEqual(complete("sluice", "check", "--s"), ["--strict"]);
  assert.deepEqual(complete("sluice", "help", "back"), ["backup"]);
  // An option with a value, and an unknown command: bash completes names of files.
  assert.deepEqual(complete("sluice", "check", "--config", ""), []);
  assert.deepEqual(complete("sluice", "unknown", ""), []);
});

for (const shell of ["zsh", "fish"]) {
  const skip = spawnSync(shell, ["--version"]).error !== undefined && `${shell} is not installed`;
  test(`${shell} accepts the script`, { skip }, (t) => {
    const file = join(temporaryFolder(t), `completion.${shell}`);
    writeFileSync(file, script(shell));
    const { status, stderr } = spawnSync(shell, ["-n", file], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  });
}

test("each script contains every command", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const text = script(shell);
    for (const name of Object.keys(await allCommands())) {
      for (const word of name.split(" --")) assert.match(text, new RegExp(word));
    }
  }
});

test("the subcommands for completion are those that a command has", async (t) => {
  const { run } = commandLine(t);
  for (const { load } of Object.values(await allCommands())) {
    const command = await load();
    if (command.subcommands === undefined) continue;
    await assert.rejects(run(command), {
      message: `missing subcommand, expected one of ${command.subcommands.join(", ")}`,
    });
  }
});
