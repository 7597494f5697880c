/**
 * The journal of a gateway that shares credit (`local`): writes charges to the data folder, and reads commits for the
 * database. It has the format of the journal of a gateway without a database, and continues that journal.
 */
import { openComputePool } from "sluice-gateway/compute";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import { loadBalances } from "../metering/balances.ts";
import { withTaken } from "../metering/charge-text.ts";
import { CreditBook } from "../metering/credit.ts";
import { JournalFile } from "../metering/journal-file.ts";
import { Journal } from "../metering/journal.ts";
import { meterMetrics } from "../metering/metrics.ts";
import { kind, type RecordCursor } from "../metering/records.ts";
import { readBatch, type BatchJob } from "../shipping/batch.ts";
import { journalId } from "../shipping/journal-state.ts";
import type { ChargeJournal, JournalBatch } from "./journal-lane.ts";
import type { LeasedCharge } from "./ledger.ts";

export interface GatewayJournalOptions {
  /** The data folder, which the caller has locked. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Only for tests: see `JournalOptions`. */
  readonly maxPages?: number;
}

export interface GatewayJournal extends ChargeJournal {
  readonly dataDir: string;
  /** Time of the newest record, in milliseconds since 1970. Times in a journal never go back. */
  readonly newest: number;
  /** Time of the oldest charge in the batch that was read last, in milliseconds since 1970. */
  readonly readSince: number | undefined;
  /** Writes all pending charges. */
  close(): Promise<void>;
}

const batchModule = threadModule("plugins/billing/shipping/batch");

/** Recovers the journal, and starts its threads. Rejects with StoreError. */
export async function openGatewayJournal(options: GatewayJournalOptions): Promise<GatewayJournal> {
  const { dataDir, clock, log } = options;
  const metrics = meterMetrics(options.metrics);
  const file = JournalFile.open(dataDir, options.maxPages);
  try {
    metrics.expired.add(file.recover(clock.now()).expired);
  } finally {
    file.close();
  }
  const { names, newest } = loadBalances(dataDir, new CreditBook());
  const onLost = (records: RecordCursor): void => {
    while (records.next()) {
      if (records.kind === kind.charge) metrics.lost.add(records.costMilliCu);
    }
  };
  const journal = await Journal.open({ ...options, durability: "local", metrics, names, onLost });
  // The journal has its own thread, so that reports and exports do not delay the charges.
  const threads = openComputePool({ clock, metrics: options.metrics, threads: 1 });
  let pending = 0;
  let readSince: number | undefined;
  let isClosed = false;
  /** Returns undefined if the commits cannot be read now. Never rejects. */
  const read = async (after: number): Promise<JournalBatch | undefined> => {
    try {
      const input: BatchJob = { dataDir, after, upTo: journal.lastCommit };
      const result = await threads.run({ module: batchModule, input, transfer: [] });
      if (!result.ok) throw new Error(`cannot read the next charges: ${result.reason}`);
      if (result.bytes === undefined) return undefined;
      const { first, last, since, more, rows, count, check } = readBatch(result.bytes);
      readSince = since;
      return { first, last, charges: [], encoded: { rows, count, check }, more };
    } catch (error) {
      if (!isClosed) log.warn({ err: error }, "the journal could not be read; trying again");
      return undefined;
    }
  };
  const deliver: (...args: Parameters<ChargeJournal["read"]>) => Promise<void> = async (
    after,
    done,
  ) => {
    done(await read(after));
  };
  return {
    id: journalId(dataDir),
    dataDir,
    newest,
    get readSince() {
      return readSince;
    },
    get isWritable() {
      return journal.writable;
    },
    get lastCommit() {
      return journal.lastCommit;
    },
    append(charges, done) {
      if (!journal.hasRoom(charges.length)) return done(false);
      for (const charge of charges) append(journal, charge);
      const written = journal.publish(charges.length, pending === 0 ? "immediate" : "batched");
      pending++;
      const end = (isWritten: boolean): void => {
        pending--;
        done(isWritten);
      };
      written.then(
        () => end(true),
        () => end(false),
      );
    },
    read(after, done) {
      void deliver(after, done);
    },
    async close() {
      isClosed = true;
      await journal.close();
      await threads.close();
    },
  };
}

function append(journal: Journal, charge: LeasedCharge): void {
  const { details, splitMilliCu, takenMilliCu, keyTakenMilliCu, text } = charge;
  const [includedMilliCu = 0, purchasedMilliCu = 0, overageMilliCu = 0] = splitMilliCu;
  const [included = 0, purchased = 0, overage = 0] = takenMilliCu;
  const { surface, method, model, outcome, route } = details;
  journal.appendCharge({
    key: journal.nameNumber(charge.keyId),
    workspace: journal.nameNumber(charge.workspaceId),
    surface: journal.nameNumber(surface),
    method: journal.nameNumber(method),
    model: model === null ? 0 : journal.nameNumber(model),
    route: route === undefined ? 0 : journal.nameNumber(route),
    outcome: outcome === "complete" ? 0 : journal.nameNumber(outcome),
    // Times in the journal are whole milliseconds.
    time: Math.floor(charge.time),
    split: { includedMilliCu, purchasedMilliCu, overageMilliCu },
    inputTokens: details.input_tokens,
    outputTokens: details.output_tokens,
    cachedTokens: 0,
    reasoningTokens: 0,
    estimated: details.estimated,
    intent: 0,
    text: withTaken(text ?? details.request_id, [included, purchased, overage, keyTakenMilliCu]),
  });
}
