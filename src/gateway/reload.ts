/**
 * A reload replaces the whole generation or nothing: while the file has faults, the last good generation keeps serving.
 * The faults are listed at /pipelines and in the log, and a gauge shows that the reload failed.
 */
import type { Config } from "../config/config.ts";
import { fault, type Fault } from "../config/fault.ts";
import type { Generation } from "../pipeline/load/generation.ts";
import { checkFile, type ValidatedConfig } from "../pipeline/load/check-file.ts";
import { localFiles } from "../pipeline/load/local-modules.ts";
import type { Clock, Gauge, Log, Metrics, Plugin } from "../plugin.ts";
import { watchCode, watchFile } from "./watch-file.ts";

export interface ReloadState {
  readonly generation: number;
  readonly loadedAt: string;
  /** Faults of the current file, which therefore is not loaded. Empty if it is loaded. */
  readonly faults: readonly Fault[];
  readonly failedAt: string | undefined;
}

export interface Reloader extends Disposable {
  readonly state: ReloadState;
  /**
   * Reloads now. All calls made during a reload share one more reload. Resolves with the faults, or with an empty list
   * if the new generation serves. After disposal it resolves with SLUICE_STOPPING and changes nothing.
   */
  reload(reason: string): Promise<readonly Fault[]>;
}

interface ReloaderOptions {
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly without?: readonly string[];
  readonly watch?: boolean;
  readonly strict?: boolean;
  /** The plugins of `current`, by name. */
  readonly plugins: ReadonlyMap<string, Plugin>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly current: Generation;
  readonly build: (
    next: ValidatedConfig,
    previous: Generation,
  ) => Promise<{ generation: Generation | undefined; faults: readonly Fault[] }>;
  readonly swap: (generation: Generation) => void;
}

export class FileReloader implements Reloader {
  readonly reload: Reloader["reload"];
  readonly #options: ReloaderOptions;
  readonly #failed: Gauge;
  readonly #generation: Gauge;
  readonly #watcher: Disposable | undefined;
  #codeWatcher: Disposable | undefined;
  #plugins: ReadonlyMap<string, Plugin>;
  #current: Generation;
  #state: ReloadState;
  #disposed = false;

  constructor(options: ReloaderOptions) {
    const { metrics, current, configFile, watch: watches = true } = options;
    this.#options = options;
    this.#failed = metrics
      .gauge("sluice_reload_failed", "1 if the current pipeline.yaml could not be loaded, else 0.")
      .with({});
    this.#generation = metrics
      .gauge("sluice_generation", "Number of the pipeline generation that serves requests.")
      .with({});
    this.#current = current;
    this.#plugins = options.plugins;
    this.#state = this.#loaded();
    this.reload = oneAtATime((reason) => this.#reload(reason));
    if (watches) {
      this.#watcher = watchFile(configFile, options, () => void this.reload("file"));
    }
    this.#watchCode();
  }

  get state(): ReloadState {
    return this.#state;
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#watcher?.[Symbol.dispose]();
    this.#codeWatcher?.[Symbol.dispose]();
  }

  #watchCode(): void {
    const { watch: watches = true, strict = false } = this.#options;
    this.#codeWatcher?.[Symbol.dispose]();
    if (!watches || !strict || this.#disposed) return;
    const reload = (): void => void this.reload("plugin code");
    this.#codeWatcher = watchCode(localFiles(), this.#options, reload);
  }

  async #reload(reason: string): Promise<readonly Fault[]> {
    if (this.#disposed) return stopping;
    try {
      return await this.#load(reason);
    } catch (error) {
      return this.#refused(reason, [fault("SLUICE_START_FAILED", String(error))]);
    } finally {
      this.#watchCode();
    }
  }

  async #load(reason: string): Promise<readonly Fault[]> {
    const { configFile, env, without = [], log, build, swap } = this.#options;
    const { validated, faults, outdated } = await checkFile(configFile, env, { without });
    for (const what of outdated) log.warn({ reason }, `${what}: restart to load it`);
    if (validated === undefined) return this.#refused(reason, faults);
    const fixed = needsRestart(this.#current.config, validated);
    if (fixed.length > 0) return this.#refused(reason, fixed);
    const built = await build(validated, this.#current);
    if (built.generation === undefined) return this.#refused(reason, built.faults);
    if (this.#disposed) {
      await built.generation.retire();
      return stopping;
    }
    const old = this.#current;
    this.#current = built.generation;
    swap(this.#current);
    void old.retire().catch((error: unknown) => {
      log.error(
        { err: error, generation: old.number },
        "the previous generation did not stop cleanly",
      );
    });
    this.#state = this.#loaded();
    const plugins = changedCode(this.#plugins, validated.plugins);
    this.#plugins = validated.plugins;
    const { number: generation } = this.#current;
    log.info(
      { reason, generation, ...(plugins.length > 0 && { plugins }) },
      plugins.length > 0 ? "pipeline reloaded, with new code of plugins" : "pipeline reloaded",
    );
    return [];
  }

  #loaded(): ReloadState {
    const { number: generation } = this.#current;
    this.#failed.set(0);
    this.#generation.set(generation);
    return { generation, loadedAt: this.#now(), faults: [], failedAt: undefined };
  }

  #refused(reason: string, faults: readonly Fault[]): readonly Fault[] {
    // A reload that is running can fail because the gateway closes what it needs.
    if (this.#disposed) return stopping;
    this.#state = { ...this.#state, faults, failedAt: this.#now() };
    this.#failed.set(1);
    const message = "pipeline not reloaded: the last good pipeline keeps serving";
    this.#options.log.error({ reason, faults }, message);
    return faults;
  }

  #now(): string {
    return new Date(this.#options.clock.now()).toISOString();
  }
}

function changedCode(
  before: ReadonlyMap<string, Plugin>,
  after: ReadonlyMap<string, Plugin>,
): string[] {
  return [...after].flatMap(([name, plugin]) => {
    const earlier = before.get(name);
    return earlier === undefined || earlier === plugin ? [] : [name];
  });
}

const stopping: readonly Fault[] = [
  fault("SLUICE_STOPPING", "the gateway is stopping and does not reload"),
];

function oneAtATime<T>(task: (reason: string) => Promise<T>): (reason: string) => Promise<T> {
  let running: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  const start = (reason: string): Promise<T> => {
    running = task(reason).finally(() => {
      running = undefined;
    });
    return running;
  };
  return (reason) => {
    if (running === undefined) return start(reason);
    next ??= running.then(() => {
      next = undefined;
      return start(reason);
    });
    return next;
  };
}

const fixedSections = ["environment", "server", "admin", "store", "log", "secret"] as const;

function needsRestart(before: Config, { config: after, plugins }: ValidatedConfig): Fault[] {
  const isChanged = (one: unknown, other: unknown): boolean =>
    JSON.stringify(one) !== JSON.stringify(other);
  const changed: string[] = fixedSections.filter((name) => isChanged(before[name], after[name]));
  for (const plugin of plugins.values()) {
    const fixed = plugin.kind === "service" ? (plugin.fixedSections ?? []) : [];
    changed.push(...fixed.filter((name) => isChanged(before.sections[name], after.sections[name])));
  }
  const fastify = (config: Config): string =>
    JSON.stringify(config.fastify.map(({ name, options }) => [name, options]));
  if (fastify(before) !== fastify(after)) changed.push("fastify");
  return changed.map((section) => {
    const at = after.keyAt(`/${section}`);
    return fault("SLUICE_RESTART_NEEDED", `changing "${section}" needs a restart of the gateway`, {
      at,
    });
  });
}
