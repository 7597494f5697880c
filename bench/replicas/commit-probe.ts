/** Measures PostgreSQL's own share of a latency: one connection inserts a row, commits, and waits for 20 ms. */
import { setTimeout as wait } from "node:timers/promises";
import { Client } from "pg";

export interface CommitProbe extends AsyncDisposable {
  /** Returns milliseconds. */
  percentile(percent: number): number;
}

const pauseMs = 20;

export async function startCommitProbe(url: string): Promise<CommitProbe> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("CREATE TABLE IF NOT EXISTS commit_probe (at timestamptz)");
  const times: number[] = [];
  let isOver = false;
  const committing = (async () => {
    while (!isOver) {
      const started = performance.now();
      await client.query("INSERT INTO commit_probe VALUES (now())");
      times.push(performance.now() - started);
      await wait(pauseMs);
    }
  })();
  return {
    percentile(percent) {
      const sorted = times.toSorted((a, b) => a - b);
      return sorted[Math.floor((sorted.length * percent) / 100)] ?? Number.NaN;
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      await committing;
      await client.end();
    },
  };
}
