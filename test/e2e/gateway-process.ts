/** Runs the gateway in its own process, for tests that end it. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { NewKey } from "../../plugins/contracts/accounts.ts";
import type { TestKey } from "../../plugins/contracts/testing.ts";
import { packedPackage } from "../package/package-fixture.ts";
import { withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";

export const sourceMain = join(import.meta.dirname, "../../src/main.ts");

/**
 * The command `sluice`. In a run of all test files it is the built package, which starts with half the CPU time. A file
 * that runs alone uses the sources, because it would have to build the package first.
 */
export const main =
  process.env["SLUICE_TEST_BUILT"] === "true"
    ? join((await packedPackage()).dist, "src/main.js")
    : sourceMain;

export interface GatewayProcess {
  readonly url: string;
  readonly adminUrl: string;
  readonly child: ChildProcess;
  readonly exited: Promise<[number | null, NodeJS.Signals | null]>;
}

type Env = Readonly<Record<string, string>>;

/** With the memory settings of src/commands/server-process.ts, the process does not have to replace itself. */
const flags = ["--max-semi-space-size=8", "--min-semi-space-size=8"];
const settings = { MALLOC_MMAP_THRESHOLD_: "32768" };

interface SpawnOptions {
  /** A program that runs the gateway as its child. */
  readonly wrapper?: readonly string[];
  /** Called with each line of standard output. */
  readonly onLine?: (line: string) => void;
  readonly command?: string;
}

/** Rejects with what the gateway wrote to standard error. */
export async function spawnGateway(
  configFile: string,
  env: Env,
  { wrapper = [], onLine = () => {}, command = main }: SpawnOptions = {},
): Promise<GatewayProcess> {
  const start = [process.execPath, ...flags, command, "start", "--json", "--config", configFile];
  const [program = "", ...args] = [...wrapper, ...start];
  const child = spawn(program, args, {
    env: { ...process.env, ...settings, PORT: "0", ADMIN_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let complaints = "";
  child.stderr.on("data", (chunk) => (complaints += chunk));
  const exited = once(child, "exit") as GatewayProcess["exited"];
  const lines = createInterface({ input: child.stdout });
  const started = new Promise<string>((resolve) => {
    lines.on("line", (text) => {
      onLine(text);
      // Log lines share standard output. The line with a URL contains the addresses.
      if (text.startsWith('{"url"')) resolve(text);
    });
  });
  const line = await Promise.race([started, exited.then(() => undefined)]);
  if (line === undefined) throw new Error(`the gateway did not start: ${complaints}`);
  const { url, admin_url: adminUrl } = JSON.parse(line) as { url: string; admin_url: string };
  return { url, adminUrl, child, exited };
}

/** Returns the standard output of another command. Throws unless it exits with 0. */
export function sluice(args: readonly string[], env: Env): string {
  const result = spawnSync(process.execPath, [sourceMain, ...args], {
    env: { ...process.env, PORT: "0", ADMIN_PORT: "0", ...env },
    encoding: "utf8",
    maxBuffer: 1 << 30,
  });
  if (result.status !== 0) throw new Error(`sluice ${args.join(" ")}: ${result.stderr}`);
  return result.stdout;
}

/** Creates a workspace with the plan Enterprise and one key, as the commands do, in a data folder. */
export function makeKey(
  data: string,
  capabilities: NewKey["capabilities"] = ["ledger:read", "inference"],
): Promise<TestKey> {
  return withFolderAccounts(data, async (store) => {
    const by = { actor: "test", at: Date.now() };
    const { id } = await store.createWorkspace({ name: "test", plan: "enterprise" }, by);
    const wanted = { workspaceId: id, name: "test", environment: "dev", capabilities } as const;
    const issued = await store.createKey(wanted, by);
    if (!("text" in issued)) throw new Error(issued.message);
    return { workspaceId: id, keyId: issued.key.id, key: issued.text };
  });
}

export async function* sluiceLines(args: readonly string[], env: Env): AsyncGenerator<string> {
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, PORT: "0", ADMIN_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  yield* createInterface({ input: child.stdout });
  const [code] = await exited;
  if (code !== 0) throw new Error(`sluice ${args.join(" ")}: exit code ${code}`);
}

const hasPrlimit = spawnSync("prlimit", ["--version"]).error === undefined;

export const withoutPrlimit: string | false =
  hasPrlimit || process.env["CI"] === "true" ? false : "needs prlimit (util-linux)";

/** Limits the size of files that the process writes. Beyond it, a write fails as on a full disk. */
export function limitFiles(pid: number, bytes: string): void {
  const { status } = spawnSync("prlimit", [`--pid=${pid}`, `--fsize=${bytes}:unlimited`]);
  if (status !== 0) throw new Error(`prlimit exits with ${status}`);
}
