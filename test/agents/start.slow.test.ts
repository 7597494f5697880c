/** An agent creates a file with the gateway, the key and the demo model of `npm start`, as docs/recipes/agents.md shows. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { demoModelId } from "../../plugins/inference/demo/model.ts";
import { agents, editWith, skipUninstalled } from "./programs.ts";

const root = join(import.meta.dirname, "../..");

// The fastest agent, which speaks every API.
const pi = agents.find(({ name }) => name === "pi") ?? assert.fail();
const skip = skipUninstalled(pi);

interface Printed {
  readonly rpc_url: string;
  readonly key: string;
}

let printed: Printed;
const stack = new AsyncDisposableStack();
before(async () => {
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), "sluice-start-")));
  const {
    LEDGER_RPC_URL: _,
    SLUICE_CONFIG: __,
    CONFIDENTIAL_CLASSIC_URL: ___,
    ...env
  } = process.env;
  const child = spawn("npm", ["start", "--silent", "--", "--json"], {
    cwd: root,
    env: { ...env, PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder.path, "data") },
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  stack.defer(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
    await closed;
  });
  const ended = closed.then(() => assert.fail("npm start ended at once"));
  const [line] = await Promise.race([once(createInterface(child.stdout), "line"), ended]);
  // `sluice dev --json` prints this line; test/e2e/start.test.ts checks its members.
  printed = JSON.parse(String(line)) as Printed;
});
after(() => stack.disposeAsync());

for (const api of pi.apis) {
  test(`${pi.name} creates a file over the API for ${api} of \`npm start\``, { skip }, async () => {
    const target = { url: new URL(printed.rpc_url).origin, key: printed.key, model: demoModelId };
    const created = { prompt: "Create hello.txt: made by an agent", file: "hello.txt" };
    assert.equal(await editWith(pi, api, target, created), "made by an agent\n");
  });
}
