/** Measures PostgreSQL's own share of a latency: one connection inserts a row, commits, and waits for 20 ms. */
import { setTimeout as wait } from "node:timers/promises";
import { Client } from "pg";
import { quantile } from "../load/table.ts";

export interface CommitProbe extends AsyncDisposable {
  /** Returns milliseconds. */
  quantile(share: number): number;
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
    quantile: (share) => quantile(times, share),
    async [Symbol.asyncDispose]() {
      isOver = true;
      await committing;
      await client.end();
    },
  };
}
