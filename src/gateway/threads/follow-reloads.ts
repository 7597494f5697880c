/** Prepares the generation of a reload in a thread, then serves it or drops it, as the main thread decides. */
import type { Fault } from "../../config/fault.ts";
import type { Generation } from "../../pipeline/load/generation.ts";
import type { Log, Threads } from "../../plugin.ts";
import { StartError } from "../../start-error.ts";
import {
  commitTopic,
  dropTopic,
  prepareCall,
  retiredTopic,
  type PipelineFile,
} from "./thread-start.ts";

export interface Reloads<Built extends Pick<Generation, "retire">> {
  /** Rejects with a StartError. */
  readonly build: (
    file: PipelineFile,
  ) => Promise<{ readonly generation: Built | undefined; readonly faults: readonly Fault[] }>;
  /** Serves new requests with this generation. Resolves when the previous one has stopped. */
  readonly swap: (next: Built) => Promise<void>;
}

interface Deps {
  readonly threads: Threads;
  readonly log: Log;
  readonly stack: Pick<AsyncDisposableStack, "use" | "defer">;
}

/** `number`: that of the generation which the thread serves. All numbers are those of the main thread. */
export function followReloads<Built extends Pick<Generation, "retire">>(
  number: number,
  { threads, log, stack }: Deps,
  { build, swap }: Reloads<Built>,
): void {
  let prepared: { readonly generation: Built; readonly number: number } | undefined;
  /** Ends with the last build. The main thread may have given up an earlier one, which still runs. */
  let building: Promise<unknown> = Promise.resolve();
  const failed = (error: unknown): void =>
    log.error({ err: error }, "the previous generation did not stop cleanly");
  const drop = async (): Promise<void> => {
    const dropped = prepared;
    prepared = undefined;
    await dropped?.generation.retire();
  };
  const prepare = async (file: PipelineFile): Promise<readonly Fault[]> => {
    await drop();
    try {
      const { generation, faults } = await build(file);
      prepared = generation && { generation, number: file.generation };
      return faults;
    } catch (error) {
      if (error instanceof StartError) return error.faults;
      throw error;
    }
  };
  stack.defer(drop);
  stack.use(
    threads.serve(prepareCall, (file) => {
      // Only the main thread calls this.
      const built = building.then(() => prepare(file as PipelineFile));
      building = built.catch(() => {});
      return built;
    }),
  );
  stack.use(
    threads.receive(commitTopic, (committed) => {
      // This thread began to serve after the others had prepared the generation, so the main thread ends it.
      const next = prepared;
      if (next === undefined || next.number !== committed) return;
      prepared = undefined;
      const previous = number;
      number = next.number;
      void swap(next.generation)
        .catch(failed)
        .then(() => threads.send(retiredTopic, previous, 0));
    }),
  );
  stack.use(
    threads.receive(dropTopic, () => {
      building = building.then(drop).catch(failed);
    }),
  );
}
