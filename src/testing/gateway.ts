/** Starts a whole gateway for a test, with port 0, a temporary folder, a workspace and a key. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import type { Capability, PlanName } from "sluice-gateway/services";
import type { Clock, Environment, Log } from "../plugin.ts";
import { startGateway, type Gateway } from "../gateway/gateway.ts";
import { atOnce } from "./at-once.ts";

export interface TestGatewayOptions {
  /** The text of pipeline.yaml. Environment variables set the ports to 0 and the store to a temporary folder. */
  readonly pipeline: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** The log of the gateway. By default the lines of the log and of the access log are kept in `lines`. */
  readonly log?: Log;
  /** The workspace and the limits of the first key. */
  readonly account?: WantedKey;
  readonly watch?: boolean;
  /** Strict mode, which holds plugins to their manifests as in `sluice dev` (default true). */
  readonly strict?: boolean;
  /** Called before the gateway starts, to add files to the folder of pipeline.yaml (a package in node_modules). */
  readonly prepare?: (folder: string) => void;
}

/** A workspace and one of its keys. The defaults are the plan `enterprise` and the capabilities of a new key. */
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
  /** The temporary folder, which contains pipeline.yaml and the store (`data`). */
  readonly folder: string;
  /** Creates another workspace and key. The running gateway accepts the key at once. */
  issue(wanted: WantedKey): TestKey;
  /** The log lines as `message {fields}`, and the JSON lines of the access log. Nothing goes to standard output. */
  readonly lines: readonly string[];
  /** Replaces pipeline.yaml. The caller must reload the gateway or have set `watch`. */
  write(pipeline: string): Promise<void>;
}

/**
 * Starts a gateway. Throws `StartError` if the pipeline does not start. Dispose of it to stop it and remove its folder.
 */
export async function startTestGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const data = join(folder, "data");
  const configFile = join(folder, "pipeline.yaml");
  const write = (text: string): Promise<void> => writeFile(configFile, text);
  const lines: string[] = [];
  try {
    await write(options.pipeline);
    options.prepare?.(folder);
    // The configuration refuses any other value of GATEWAY_ENV.
    const environment = (options.env?.["GATEWAY_ENV"] ?? "dev") as Environment;
    await using starting = new AsyncDisposableStack();
    const gateway = await startGateway({
      configFile,
      env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: data, ...options.env },
      log: options.log ?? keepingLog(lines),
      watch: options.watch ?? false,
      strict: options.strict ?? true,
      drainDelaySeconds: 0,
      ...(options.clock !== undefined && { clock: options.clock }),
    });
    starting.defer(() => gateway.stop());
    const account = issue(gateway, environment, options.account ?? {});
    starting.move();
    return {
      gateway,
      url: gateway.url,
      adminUrl: gateway.adminUrl,
      folder,
      ...account,
      issue: (wanted) => issue(gateway, environment, wanted),
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

/** Creates a workspace and a key in the accounts of the running gateway. */
function issue(gateway: Gateway, environment: Environment, wanted: WantedKey): TestKey {
  const { plan = "enterprise", overageLimitCuMilli, ...limits } = wanted;
  const { admin } = gateway.use("accounts") ?? noAccounts();
  const by = { actor: "test", at: wanted.createdAt ?? Date.now() };
  const workspace = atOnce(admin.createWorkspace({ name: "test", plan, overageLimitCuMilli }, by));
  const issued = atOnce(
    admin.createKey(
      {
        name: "test",
        workspaceId: workspace.id,
        environment,
        capabilities: admin.defaultCapabilities,
        ...limits,
      },
      by,
    ),
  );
  if (!("text" in issued)) throw new Error(`no test key: ${issued.message}`);
  return { workspaceId: workspace.id, keyId: issued.key.id, key: issued.text };
}

function noAccounts(): never {
  throw new Error("the service `accounts` does not run");
}

/** JSON.stringify would write an Error as `{}`. The serializer of pino keeps its message, stack and causes. */
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
