/**
 * The plugins that run in one generation. A plugin that the previous generation runs with the same code, mode, options
 * and services is carried over. It stops when the last generation that holds it has released it.
 */
import type { Closer } from "./closer.ts";

export interface StartedPlugin {
  readonly hooks: unknown;
  readonly stop: () => unknown;
  /** True for services: they stop after all other plugins, in reverse order, because the others may use them. */
  readonly isService: boolean;
}

interface RunningPlugin extends StartedPlugin {
  readonly title: string;
  readonly code: unknown;
  holders: number;
}

export class PluginCarryOver {
  readonly #running = new Map<string, RunningPlugin>();
  #previous: ReadonlyMap<string, RunningPlugin> | undefined;

  constructor(previous: PluginCarryOver | undefined) {
    this.#previous = previous === undefined ? undefined : previous.#running;
  }

  /** Forgets the previous generation, so that it can be collected. Called when all plugins have been acquired. */
  complete(): void {
    this.#previous = undefined;
  }

  /**
   * Returns the hooks of the plugin with this title and these inputs, and starts it if neither this generation nor the
   * previous one runs it. `title`: names it in the log, without its options, which can hold secrets. `inputs`: its
   * options and services as text. `code`: the loaded plugin, which is another object after its code was reloaded.
   */
  async acquire(
    title: string,
    inputs: string,
    code: unknown,
    start: () => Promise<StartedPlugin>,
  ): Promise<unknown> {
    const key = `${title} ${inputs}`;
    let plugin = this.#running.get(key);
    if (plugin === undefined) {
      const earlier = this.#previous?.get(key);
      const isSame = earlier !== undefined && earlier.code === code;
      plugin = isSame ? earlier : { ...(await start()), title, code, holders: 0 };
      plugin.holders++;
      this.#running.set(key, plugin);
    }
    return plugin.hooks;
  }

  /**
   * Releases all plugins and stops those that no other generation holds. Resolves when they have stopped or `closer`
   * waits no longer. Rejects with an `AggregateError` of what they threw.
   */
  async release(closer: Pick<Closer, "close">): Promise<void> {
    const released = [...this.#running.values()];
    this.#running.clear();
    for (const plugin of released) plugin.holders--;
    const unused = released.filter(({ holders }) => holders === 0);
    const stopAll = async (plugins: readonly RunningPlugin[]): Promise<unknown[]> => {
      const ends = await Promise.allSettled(
        plugins.map(({ title, stop }) => closer.close(title, stop)),
      );
      return ends.flatMap((end): unknown[] => (end.status === "rejected" ? [end.reason] : []));
    };
    const errors = await stopAll(unused.filter(({ isService }) => !isService));
    const services = unused.filter(({ isService }) => isService);
    for (const service of services.toReversed()) errors.push(...(await stopAll([service])));
    if (errors.length === 0) return;
    throw new AggregateError(
      errors,
      `some plugins did not stop cleanly: ${errors.map(String).join("; ")}`,
    );
  }
}
