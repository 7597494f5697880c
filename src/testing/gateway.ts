/** Starts a whole gateway for a test: port 0, a temporary folder, a workspace and a key. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { openAccountsDatabase } from "../accounts/schema.ts";
import { createKey } from "../accounts/keys.ts";
import { defaultCapabilities } from "../accounts/terms.ts";
import { createWorkspace } from "../accounts/workspaces.ts";
import type { Capability, Clock, Environment, Log, PlanName } from "../plugin.ts";
import { startGateway, type Gateway } from "../server/gateway.ts";

export interface TestGatewayOptions {
  /** The text of pipeline.yaml. Ports are set to 0 and the store to a temporary folder through the environment. */
  readonly pipeline: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** Default: a log that keeps its lines, and those of the access log, in `lines`. */
  readonly log?: Log;
  /** What the first key may do and spend. */
  readonly account?: WantedKey;
  readonly watch?: boolean;
  /** Holds plugins to their manifests, as `sluice dev` does (default true). */
  readonly strict?: boolean;
  /** Puts further files into the folder of pipeline.yaml (a package in node_modules) before the gateway starts. */
  readonly prepare?: (folder: string) => void;
}

/** A workspace and a key of it; the defaults are an enterprise plan and the capabilities of a new key. */
export interface WantedKey {
  readonly plan?: PlanName;
  readonly overageLimitCuMilli?: number;
  readonly capabilities?: readonly Capability[];
  readonly rpsLimit?: number;
  readonly cuLimit24hMilli?: number;
  readonly cuLimit30dMilli?: number;
  readonly allowedAddresses?: readonly string[];
  /** Milliseconds since 1970. */
  readonly expiresAt?: number;
  readonly createdAt?: number;
}

export interface TestKey {
  readonly workspaceId: string;
  readonly keyId: string;
  /** The text of the key, for `Authorization: Bearer`. */
  readonly key: string;
}

export interface TestGateway extends TestKey, AsyncDisposable {
  readonly gateway: Gateway;
  readonly url: string;
  readonly adminUrl: string;
  /** The temporary folder; pipeline.yaml and the store (`data`) are in it. */
  readonly folder: string;
  /** Another workspace and key; the running gateway sees it at its first use. */
  issue(wanted: WantedKey): TestKey;
  /** What was logged, as `message {fields}`, and the access log's lines of JSON. Standard output stays empty. */
  readonly lines: readonly string[];
  /** Writes pipeline.yaml anew; the caller reloads, or watches. */
  write(pipeline: string): Promise<void>;
}

/** Throws `StartError` when the pipeline does not start. Dispose to stop it and remove its folder. */
export async function startTestGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const data = join(folder, "data");
  const configFile = join(folder, "pipeline.yaml");
  const write = (text: string): Promise<void> => writeFile(configFile, text);
  const lines: string[] = [];
  try {
    await write(options.pipeline);
    options.prepare?.(folder);
    // The configuration refuses any other word before this matters.
    const environment = (options.env?.["GATEWAY_ENV"] ?? "dev") as Environment;
    const account = issue(data, environment, options.account ?? {});
    const gateway = await startGateway({
      configFile,
      env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: data, ...options.env },
      log: options.log ?? keepingLog(lines),
      watch: options.watch ?? false,
      strict: options.strict ?? true,
      drainDelaySeconds: 0,
      ...(options.clock !== undefined && { clock: options.clock }),
    });
    return {
      gateway,
      url: gateway.url,
      adminUrl: gateway.adminUrl,
      folder,
      ...account,
      issue: (wanted) => issue(data, environment, wanted),
      lines,
      write,
      async [Symbol.asyncDispose]() {
        await gateway.stop();
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Makes a workspace and a key of it in the store that the gateway uses. */
function issue(data: string, environment: Environment, wanted: WantedKey): TestKey {
  const { plan = "enterprise", overageLimitCuMilli, ...limits } = wanted;
  const db = openAccountsDatabase(data);
  try {
    const by = { actor: "test", at: wanted.createdAt ?? Date.now() };
    const workspace = createWorkspace(db, { name: "test", plan, overageLimitCuMilli }, by);
    const issued = createKey(
      db,
      {
        name: "test",
        workspaceId: workspace.id,
        environment,
        capabilities: defaultCapabilities,
        ...limits,
      },
      by,
    );
    if (!("text" in issued)) throw new Error(`no test key: ${issued.message}`);
    return { workspaceId: workspace.id, keyId: issued.key.id, key: issued.text };
  } finally {
    db.close();
  }
}

/** JSON leaves nothing of an Error: pino's serializer keeps its message, its stack and its causes. */
function withCause(fields: object): object {
  return "err" in fields && fields.err instanceof Error
    ? { ...fields, err: pino.stdSerializers.err(fields.err) }
    : fields;
}

function keepingLog(lines: string[]): Log {
  const keep = (fields: object, message: string): void => {
    lines.push(`${message} ${JSON.stringify(withCause(fields))}`);
  };
  const line = (text: string): void => void lines.push(text);
  const log: Log = { line, debug: keep, info: keep, warn: keep, error: keep, child: () => log };
  return log;
}
