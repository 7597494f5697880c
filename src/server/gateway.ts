/** A running gateway: opens the stores, provisions the first generation, listens, reloads and drains. */
import { mkdirSync } from "node:fs";
import { openAccounts, type AccountsService } from "../accounts/accounts.ts";
import { systemClock } from "../clock.ts";
import { openComputePool } from "../compute/pool.ts";
import type { Config, Fault } from "../config/config.ts";
import { fault } from "../config/fault.ts";
import { createDecoder } from "../ledger/decode/decoder.ts";
import { openLedger } from "../ledger/ledger.ts";
import { openPool } from "../ledger/pool/pool.ts";
import { createLog } from "../log.ts";
import { createMetrics } from "../metrics.ts";
import { openMeter, type MeterService } from "../metering/meter.ts";
import { describePipelines } from "../pipeline/describe.ts";
import type { Generation } from "../pipeline/generation.ts";
import { checkFile, nextGeneration } from "../pipeline/load-generation.ts";
import type { Services } from "../pipeline/services.ts";
import { coreMetrics } from "../pipeline/stats.ts";
import type { Clock, Log } from "../plugin.ts";
import { openClaims } from "../store/claims.ts";
import { createSeal, keptSecret } from "../store/seal.ts";
import { lockStore } from "../store/lock.ts";
import { StoreError } from "../store/store-error.ts";
import { startAdmin, type Admin } from "./admin.ts";
import { listen, type Listener, type Readiness } from "./listen.ts";
import { createReloader, type Reloader } from "./reload.ts";

export interface StartOptions {
  /** Absolute path of pipeline.yaml. */
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock?: Clock;
  /** Where log lines go instead of standard output. */
  readonly log?: Log;
  /** Reload when the file changes (default true). */
  readonly watch?: boolean;
  /** In place of the configuration's: a test has no load balancer that must notice first. */
  readonly drainDelaySeconds?: number;
}

export interface Gateway {
  readonly config: Config;
  readonly url: string;
  readonly adminUrl: string;
  readonly reloader: Reloader;
  readonly listener: Listener;
  /** Drains, once however often it is called: see decisions.md section 12. Resolves when every charge is settled and every port is closed. */
  stop(): Promise<void>;
}

/** A start that failed, with everything that was wrong. */
export class StartError extends Error {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    super(faults.map((one) => `${one.code}: ${one.message}`).join("\n"));
    this.faults = faults;
  }
}

/** Starts everything or nothing; throws `StartError`. */
export async function startGateway(options: StartOptions): Promise<Gateway> {
  const { checked, faults } = await checkFile(options.configFile, options.env);
  if (checked === undefined) throw new StartError(faults);
  const ready = checked;
  const { config } = ready;
  const clock = options.clock ?? systemClock;
  const log = options.log ?? createLog({ level: config.log.level });
  // Undone in reverse order, when the start fails half-way and when the gateway stops.
  const stack = new AsyncDisposableStack();
  try {
    return await assemble();
  } catch (error) {
    await stack.disposeAsync();
    throw error instanceof StartError ? error : new StartError([startFault(error, config)]);
  }

  async function assemble(): Promise<Gateway> {
    mkdirSync(config.store.data, { recursive: true, mode: 0o700 });
    let admin: Admin | undefined;
    // First in, last out: metrics and health stay readable until everything else has stopped.
    stack.defer(() => admin?.close());
    stack.use(lockStore(config.store.data));
    const metrics = createMetrics();
    const { data: dataDir } = config.store;
    const accounts = openAccounts({
      dataDir,
      environment: config.environment,
      plans: config.plans,
      clock,
      log,
    });
    stack.defer(() => accounts.close());
    const meter = await openMeter({
      dataDir,
      durability: config.metering.durability,
      clock,
      log,
      metrics,
    });
    stack.defer(() => meter.close());
    const claims = openClaims(dataDir, clock);
    stack.defer(() => claims.close());
    const compute = openComputePool({ clock, metrics });
    stack.defer(() => compute.close());
    const services: Services = {
      log,
      clock,
      metrics,
      accounts,
      meter,
      claims,
      seal: createSeal(config.secret ?? keptSecret(dataDir)),
      openLedger: (upstream) => {
        const shared = { upstream, clock, log, metrics };
        return openLedger({ ...shared, pool: openPool(shared) });
      },
      openDecoder: (ledger) => createDecoder({ ledger, compute, clock }),
    };
    const core = coreMetrics(metrics);
    const first = await nextGeneration(ready, services, core);
    if (first.generation === undefined) throw new StartError(first.faults);
    const state: { draining: boolean; generation: Generation } = {
      draining: false,
      generation: first.generation,
    };
    stack.defer(() => state.generation.retire());
    const readiness = (): Readiness =>
      checkReadiness(state.draining, state.generation, { accounts, meter });
    const listener = await listen({
      server: config.server,
      generation: first.generation,
      clock,
      log,
      readiness,
    });
    stack.defer(() => listener.close(0));
    const reloader = createReloader({
      ...options,
      log,
      metrics,
      clock,
      current: first.generation,
      build: (next, previous) => nextGeneration(next, services, core, previous),
      swap(generation) {
        state.generation = generation;
        accounts.setPlans(generation.config.plans);
        listener.swap(generation);
      },
    });
    admin = await startAdmin({
      ...config.admin,
      metrics,
      pipelines: () => describePipelines(state.generation, reloader.state),
      ready: readiness,
      log,
    });
    stack.use(reloader);
    const { drainSeconds } = config.server;
    const { drainDelaySeconds = config.server.drainDelaySeconds } = options;
    const drain = async (): Promise<void> => {
      reloader[Symbol.dispose]();
      listener.beginDrain();
      await wait(clock, drainDelaySeconds * 1000);
      await listener.close(drainSeconds * 1000);
      await stack.disposeAsync();
    };
    let stopped: Promise<void> | undefined;
    return {
      config,
      url: `http://${authority(listener.host, listener.port)}`,
      adminUrl: admin.url,
      reloader,
      listener,
      stop() {
        state.draining = true;
        stopped ??= drain();
        return stopped;
      },
    };
  }
}

function checkReadiness(
  draining: boolean,
  generation: Generation,
  stores: { readonly accounts: AccountsService; readonly meter: MeterService },
): Readiness {
  const checks: Record<string, string> = {
    draining: draining ? "draining" : "ok",
    accounts: stores.accounts.stats().healthy ? "ok" : "not readable",
    journal: stores.meter.writable ? "ok" : "not writable",
  };
  for (const [name, ledger] of generation.ledgers) {
    checks[`upstream ${name}`] = ledger.ready ? "ok" : "no usable node";
  }
  return { ready: Object.values(checks).every((state) => state === "ok"), checks };
}

async function wait(clock: Clock, ms: number): Promise<void> {
  if (ms <= 0) return;
  await new Promise<void>((resolve) => clock.after(ms, resolve));
}

function authority(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** One clear line for what the system refused. */
function startFault(error: unknown, config: Config): Fault {
  const at = { file: config.file, line: 1, col: 1 };
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const message = error instanceof Error ? error.message : String(error);
  if (code === "EADDRINUSE" || code === "EACCES" || code === "EADDRNOTAVAIL") {
    return fault("SLUICE_LISTEN_FAILED", message, { at });
  }
  if (error instanceof StoreError) {
    return { code: error.code, message, remedy: error.remedy, at };
  }
  return fault("SLUICE_START_FAILED", message, { at });
}
