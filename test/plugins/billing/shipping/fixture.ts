import { setTimeout as wait } from "node:timers/promises";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { shippedMigrations } from "../../../../src/pipeline/load/migrations.ts";
import { upgradeSchema } from "../../../../src/store/postgres/migrations.ts";
import { openPostgres } from "../../../../src/store/postgres/postgres.ts";
import { createSeal } from "../../../../src/store/seal.ts";

export const seal = createSeal("a secret of this deployment");

export async function upgrade(url: string, secret = seal): Promise<void> {
  const database = openPostgres({ url, replica: "upgrade", metrics: createMetrics() });
  try {
    await upgradeSchema(database, await shippedMigrations(), secret);
  } finally {
    await database.close();
  }
}

/** Waits until a condition holds. Throws after 30 seconds, so that a condition that never holds fails its test. */
export async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error("the condition did not hold within 30 seconds");
    await wait(20);
  }
}
