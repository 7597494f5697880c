import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Awaitable, Clock, Environment, Log } from "../plugin.ts";
import { startGateway, type Gateway } from "../gateway/gateway.ts";
import { keepingLog } from "./keeping-log.ts";

export interface BareGatewayOptions {
  /** The text of pipeline.yaml. Environment variables set the ports to 0 and the store to a temporary folder. */
  readonly pipeline: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** The log of the gateway. By default the lines of the log and of the access log are kept in `lines`. */
  readonly log?: Log;
  readonly watch?: boolean;
  /** Strict mode, which holds plugins to their manifests as in `sluice dev` (default true). */
  readonly strict?: boolean;
  readonly without?: readonly string[];
  /** Called before the gateway starts, to add files to the folder of pipeline.yaml (a package in node_modules). */
  readonly prepare?: (folder: string) => Awaitable<void>;
}

export interface BareGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly environment: Environment;
  readonly url: string;
  readonly adminUrl: string;
  /** The temporary folder, which contains pipeline.yaml and the store (`data`). */
  readonly folder: string;
  /** The log lines as `message {fields}`, and the JSON lines of the access log. Nothing goes to standard output. */
  readonly lines: readonly string[];
  /** Replaces pipeline.yaml. The caller must reload the gateway or have set `watch`. */
  write(pipeline: string): Promise<void>;
}

/** Throws `StartError` if the pipeline does not start. Dispose of it to stop it and remove its folder. */
export async function startBareGateway(options: BareGatewayOptions): Promise<BareGateway> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const data = join(folder, "data");
  const configFile = join(folder, "pipeline.yaml");
  const write = (text: string): Promise<void> => writeFile(configFile, text);
  const lines: string[] = [];
  try {
    await write(options.pipeline);
    await options.prepare?.(folder);
    const gateway = await startGateway({
      configFile,
      env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: data, ...options.env },
      log: options.log ?? keepingLog(lines),
      watch: options.watch ?? false,
      strict: options.strict ?? true,
      drainDelaySeconds: 0,
      without: options.without ?? [],
      ...(options.clock !== undefined && { clock: options.clock }),
    });
    return {
      gateway,
      // The configuration refuses any other value of GATEWAY_ENV.
      environment: (options.env?.["GATEWAY_ENV"] ?? "dev") as Environment,
      url: gateway.url,
      adminUrl: gateway.adminUrl,
      folder,
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
