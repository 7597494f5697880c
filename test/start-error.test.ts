/** Starts that fail: the code, the place in pipeline.yaml and the remedy must fit what really went wrong. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Fault } from "../src/config/fault.ts";
import { startGateway } from "../src/gateway/gateway.ts";
import { ListenError } from "../src/http/bind.ts";
import { StartError } from "../src/start-error.ts";
import { temporaryFolder } from "./store/folder.ts";

const pipeline = `version: 1
server: { host: "\${HOST:-127.0.0.1}", port: "\${PORT:-0}" }
admin: { host: "\${ADMIN_HOST:-127.0.0.1}", port: "\${ADMIN_PORT:-0}" }
log: { level: silent }
store:
  data: \${DATA_DIR:-./data}
upstreams: { web: { urls: "http://127.0.0.1:1" } }
unmatched: []
routes:
  - { path: /web, run: [], to: { forward: { upstream: web } } }
`;

interface Attempt {
  readonly folder?: string;
  readonly env?: Readonly<Record<string, string>>;
}

async function refused(t: TestContext, { folder, env = {} }: Attempt): Promise<Fault> {
  const root = folder ?? temporaryFolder(t);
  const configFile = join(root, "pipeline.yaml");
  writeFileSync(configFile, pipeline);
  let found: readonly Fault[] = [];
  try {
    const gateway = await startGateway({ configFile, env, watch: false, drainDelaySeconds: 0 });
    await gateway.stop();
  } catch (error) {
    assert.ok(error instanceof StartError, String(error));
    found = error.faults;
  }
  const [fault, ...others] = found;
  assert.ok(fault !== undefined && others.length === 0, JSON.stringify(found));
  return fault;
}

test(
  "a data folder in /proc is refused quickly",
  { skip: !existsSync("/proc/self") },
  async (t) => {
    const fault = await refused(t, { env: { DATA_DIR: "/proc/x" } });
    assert.equal(fault.code, "SLUICE_STORE_UNWRITABLE");
    assert.match(fault.message, /\/proc\/x/);
  },
);

test("a data folder in node_modules is refused, also through a link", async (t) => {
  const folder = temporaryFolder(t);
  const inside = join(folder, "node_modules", "sluice-gateway");
  mkdirSync(inside, { recursive: true });
  symlinkSync(inside, join(folder, "link"));
  for (const data of ["node_modules/x/data", "link/data", "./link", inside]) {
    const fault = await refused(t, { folder, env: { DATA_DIR: data } });
    assert.equal(fault.code, "SLUICE_STORE_MISPLACED", data);
    assert.equal(fault.at?.line, 6);
    assert.ok(!existsSync(join(inside, "data")));
  }
});

test("a port that is in use names the section of its listener", async (t) => {
  const taken = createServer().listen(0, "127.0.0.1");
  t.after(() => taken.close());
  await once(taken, "listening");
  // A server that listens on a port has an AddressInfo.
  const port = String((taken.address() as AddressInfo).port);
  for (const [name, line] of [
    ["PORT", 2],
    ["ADMIN_PORT", 3],
  ] as const) {
    const fault = await refused(t, { env: { [name]: port } });
    assert.equal(fault.code, "SLUICE_LISTEN_FAILED");
    assert.equal(fault.at?.line, line);
    assert.match(fault.remedy, /^Stop the process that uses the address/);
  }
});

test("a host that this machine does not have has its own remedy", async (t) => {
  const fault = await refused(t, { env: { HOST: "192.0.2.1" } });
  assert.equal(fault.code, "SLUICE_LISTEN_FAILED");
  assert.match(fault.remedy, /^Set server\.host \(HOST\) to an address of this machine/);
});

for (const [code, port, section, remedy] of [
  ["EACCES", 80, "server", /^Choose port 1024 or higher \(server\.port, PORT\)/],
  ["EACCES", 80, "admin", /^Choose port 1024 or higher \(admin\.port, ADMIN_PORT\)/],
  ["EACCES", 8080, "server", /^Choose another port/],
  [
    "ENOTFOUND",
    8080,
    "server",
    /^Set server\.host \(HOST\) to an address of this machine, or to a name/,
  ],
  [
    "EAI_AGAIN",
    8080,
    "admin",
    /^Set admin\.host \(ADMIN_HOST\) to an address of this machine, or to a name/,
  ],
] as const) {
  test(`${code} for port ${port} of ${section} has a remedy that fits`, () => {
    const cause = Object.assign(new Error(`${code}: from the system`), { code });
    const error = new ListenError({ section, host: "::1", port }, cause);
    assert.match(error.remedy, remedy);
    assert.match(error.message, new RegExp(`^cannot listen on \\[::1\\]:${port}: .*${code}`));
  });
}
