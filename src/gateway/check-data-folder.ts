import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { threadModule } from "../base/package-files.ts";
import { late, withinLimit } from "../base/time-limit.ts";
import { knownDatabases } from "../pipeline/load/databases.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import type { Clock, Log, Metrics } from "../plugin.ts";
import { damageOf, damagesOf, setAside, type Damage } from "../store/integrity.ts";
import { StoreError } from "../store/store-error.ts";

const threadUrl = threadModule("src/store/integrity-thread");

/**
 * Time for which a start waits for the check. It is enough for gigabytes in memory, and for some hundred megabytes on a
 * slow disk. The check of larger files ends while the gateway runs, so that the time of a start is bounded.
 */
const startWaitMs = 3_000;

/** Size of all files up to which a check takes less time (1 ms per MiB) than the start of a thread. */
const smallBytes = 16 * 1024 * 1024;

/**
 * Sets damaged databases aside that the gateway can do without, and rejects with StoreError if another one is damaged.
 * Damage that is found later is logged and shown by a metric; what is still readable stays in use.
 */
export async function checkDataFolder(
  dataDir: string,
  { clock, log, metrics }: { readonly clock: Clock; readonly log: Log; readonly metrics: Metrics },
  stack: ClosingStack,
): Promise<void> {
  const { required, disposable } = await knownDatabases();
  for (const name of disposable) {
    const damage = damageOf(join(dataDir, name));
    if (damage === undefined) continue;
    const keptAs = setAside(join(dataDir, name), clock.now());
    log.warn({ keptAs }, `${damage.message}; the gateway starts with an empty one`);
  }
  const files = Object.keys(required)
    .map((name) => join(dataDir, name))
    .filter((file) => existsSync(file));
  const gauge = metrics
    .gauge(
      "sluice_damaged_databases",
      "Databases of the data folder that the check at the start found damaged.",
    )
    .with({});
  gauge.set(0);
  if (files.length === 0) return;
  const isSmall = files.reduce((sum, file) => sum + statSync(file).size, 0) <= smallBytes;
  const found = isSmall ? Promise.resolve(damagesOf(files)) : inThread(files, log, stack);
  const checked = found.then((damages) => {
    gauge.set(damages.length);
    for (const { message, remedy } of damages) {
      log.error({ code: "SLUICE_STORE_CORRUPT", remedy }, message);
    }
    return damages;
  });
  const damages = await withinLimit(checked, startWaitMs, clock);
  const first = damages === late ? undefined : damages[0];
  if (first !== undefined) {
    throw new StoreError("SLUICE_STORE_CORRUPT", first.message, first.remedy);
  }
}

/** Never rejects. */
function inThread(
  files: readonly string[],
  log: Log,
  stack: ClosingStack,
): Promise<readonly Damage[]> {
  const worker = new Worker(new URL(threadUrl), { workerData: files });
  stack.add("check of the databases", async () => void (await worker.terminate()));
  return new Promise((resolve) => {
    // The thread sends exactly one message.
    worker.once("message", (found: readonly Damage[]) => resolve(found));
    worker.once("error", (error: unknown) => {
      log.error({ err: error }, "the databases could not be checked for damage");
      resolve([]);
    });
    worker.once("exit", () => resolve([]));
  });
}
