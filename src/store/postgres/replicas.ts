/**
 * The list of the running gateways, and a table with the messages that they have not read yet. Redis would be faster,
 * but it is optional and can lose data. A delay of 250 ms is acceptable, because people wait for the answers.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../contract/clock.ts";
import type { Log } from "../../contract/log.ts";
import type { ReplicaAnswer, Replicas } from "../../contract/replicas.ts";
import type { Session } from "../../contract/session.ts";
import type { Postgres, Seal } from "../../contract/store.ts";
import { runGuarded } from "../../base/guard.ts";
import type { Gauge, Metrics } from "../../contract/metrics.ts";
import { blob, number, optionalNumber, text, type Row } from "../row.ts";
import { explainPostgres } from "./failure.ts";
import {
  differenceFrom,
  selectOtherSettings,
  settingsMigration,
  type OtherSettings,
  type SettingsDigests,
} from "./gateway-rows.ts";
import { createMessageSeal, type MessageSeal, type ReplicaMessage } from "./message-seal.ts";
import type { Migration } from "./migrations.ts";

/** `gateways` has one row per start that has not been stopped. `id`, `marks`: see `Replicas.id` and `Replicas.mark`. */
const tables = `
CREATE TABLE sluice.gateways (
  id text PRIMARY KEY, name text NOT NULL, version text NOT NULL, heard_at bigint NOT NULL
);
CREATE TABLE sluice.messages (
  no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  receiver text NOT NULL, body bytea NOT NULL, until bigint NOT NULL
);
CREATE INDEX messages_receiver ON sluice.messages (receiver, no);
`;

export const replicaMigrations: readonly Migration[] = [
  { name: "gateways", sql: tables },
  settingsMigration,
  {
    name: "marks of gateways",
    sql: "ALTER TABLE sluice.gateways ADD COLUMN marks jsonb NOT NULL DEFAULT '{}'",
  },
];

const askingLookMs = 50;
/** A row that has not changed is written again after this time. */
const heartbeatMs = 1_000;
/** A gateway that has been silent for longer is not waited for. */
const silentMs = 5_000;
const answerMs = 1_000;
const sweepMs = 60_000;
/** Messages that nobody has read are deleted after this time. */
const keptMs = 60_000;
/** Gateways that have ended without a stop are shown for this time. */
const shownMs = 600_000;
/** Messages beyond this size of the queue, or larger than `maxMessageBytes`, are dropped. */
const maxQueuedBytes = 16 * 1024 * 1024;
const maxMessageBytes = 2 * 1024 * 1024;

const heartbeat = `beat AS (
  INSERT INTO sluice.gateways AS known (id, name, version, heard_at, settings, marks)
  VALUES ($1, $2, $3, sluice.now_ms(), $4, $5)
  ON CONFLICT (id) DO UPDATE
    SET heard_at = excluded.heard_at, settings = excluded.settings, marks = excluded.marks
    WHERE known.heard_at <= excluded.heard_at - ${heartbeatMs} OR known.settings <> excluded.settings
      OR known.marks <> excluded.marks)`;
/** `$3`: id of the sender. An empty receiver means all others. */
const insert = `INSERT INTO sluice.messages (receiver, body, until)
  SELECT g.id, m.body, sluice.now_ms() + ${keptMs}
  FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS m (receiver, body, place)
  JOIN sluice.gateways g ON g.id <> $3 AND m.receiver IN ('', g.id)
    AND sluice.now_ms() - g.heard_at < ${keptMs}
  ORDER BY place`;
const take = "DELETE FROM sluice.messages WHERE receiver = $1 RETURNING no, body";
const others = `SELECT id, name, version, greatest(0, sluice.now_ms() - heard_at) AS ago
  FROM sluice.gateways WHERE id <> $1 AND sluice.now_ms() - heard_at < ${shownMs}
  ORDER BY name, id`;
const sweep = `WITH old AS (DELETE FROM sluice.messages WHERE until <= sluice.now_ms())
  DELETE FROM sluice.gateways WHERE sluice.now_ms() - heard_at >= ${shownMs}`;

export interface ReplicasOptions {
  readonly database: Postgres;
  readonly session: Session;
  readonly seal: Seal;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly settings: SettingsDigests;
}

type Receiver = Parameters<Replicas["receive"]>[1];

interface Question {
  readonly answers: Map<string, { readonly value: unknown } | undefined>;
  onAnswer: () => void;
}

export class PostgresReplicas implements Replicas {
  readonly id: string = randomUUID();
  readonly #options: ReplicasOptions;
  readonly #seal: MessageSeal;
  readonly #receivers = new Map<string, Receiver[]>();
  readonly #questions = new Map<number, Question>();
  #watch: Disposable | undefined;
  #sweeper: Disposable | undefined;
  #lastQuestion = 0;
  #queue: { readonly to: string; readonly body: Buffer }[] = [];
  #queuedBytes = 0;
  #isSending = false;
  #isReading = false;
  #isHealthy = true;
  #settings: SettingsDigests;
  #marks: Readonly<Record<string, number>> = {};
  #loggedDifference: string | undefined;
  readonly #differing: Gauge;

  private constructor(options: ReplicasOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#differing = options.metrics
      .gauge(
        "sluice_gateways_with_other_settings",
        "Number of other gateways on this database whose shared settings differ from those of this one.",
      )
      .with({});
    this.#seal = createMessageSeal(options.seal);
  }

  /** Adds this gateway to the list. Rejects with StoreError. */
  static async open(options: ReplicasOptions): Promise<PostgresReplicas> {
    const replicas = new PostgresReplicas(options);
    const { clock, session } = options;
    replicas.#watch = replicas.#follow();
    try {
      await session.look();
    } catch (error) {
      replicas.#watch[Symbol.dispose]();
      throw error;
    }
    replicas.#sweeper = clock.every(
      sweepMs,
      () => void replicas.#quietly(() => replicas.#query(sweep, [])),
    );
    return replicas;
  }

  mark(name: string, value: number): void {
    this.#marks = { ...this.#marks, [name]: value };
  }

  send(topic: string, value: unknown, to = ""): void {
    this.#send({ topic, from: this.id, value, question: undefined }, to);
  }

  receive(topic: string, receive: Receiver): Disposable {
    const all = this.#receivers.get(topic) ?? [];
    this.#receivers.set(topic, all);
    all.push(receive);
    return { [Symbol.dispose]: () => void all.splice(all.indexOf(receive), 1) };
  }

  async ask(topic: string, value: unknown): Promise<readonly ReplicaAnswer[]> {
    const { clock, session } = this.#options;
    const rows = await this.#query(others, [this.id]);
    const awaited = rows
      .filter((row) => number(row, "ago") < silentMs)
      .map((row) => text(row, "id"));
    const { promise, resolve } = Promise.withResolvers<void>();
    const answers: Question["answers"] = new Map();
    const no = ++this.#lastQuestion;
    const onAnswer = (): void => {
      if (awaited.every((id) => answers.has(id))) resolve();
    };
    this.#questions.set(no, { answers, onAnswer });
    if (awaited.length > 0) {
      this.#send({ topic, from: this.id, value, question: no }, "");
      using _looking = clock.every(askingLookMs, () => void this.#quietly(() => session.look()));
      using _limit = clock.after(answerMs, resolve);
      await promise;
    }
    this.#questions.delete(no);
    return rows.map((row) => ({
      id: text(row, "id"),
      name: text(row, "name"),
      version: text(row, "version"),
      heardMsAgo: number(row, "ago"),
      answer: answers.get(text(row, "id")),
    }));
  }

  setSettings(settings: SettingsDigests): void {
    this.#settings = settings;
  }

  /** Removes this gateway from the list. Never rejects. */
  async close(): Promise<void> {
    this.#watch?.[Symbol.dispose]();
    this.#sweeper?.[Symbol.dispose]();
    await this.#quietly(() => this.#query("DELETE FROM sluice.gateways WHERE id = $1", [this.id]));
  }

  #send(message: ReplicaMessage, to: string): void {
    const body = this.#seal.seal(message);
    const { log } = this.#options;
    if (body.length > maxMessageBytes || this.#queuedBytes + body.length > maxQueuedBytes) {
      log.warn(
        { topic: message.topic, bytes: body.length },
        "a message to another gateway was dropped: it is too large, or too many are waiting",
      );
      return;
    }
    this.#queue.push({ to, body });
    this.#queuedBytes += body.length;
    void this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      this.#queuedBytes = 0;
      const receivers = batch.map(({ to }) => to);
      const bodies = batch.map(({ body }) => body);
      try {
        await this.#query(insert, [receivers, bodies, this.id]);
      } catch (error) {
        const fields = { err: error, messages: batch.length };
        this.#options.log.warn(fields, "messages to other gateways were not sent");
      }
    }
    this.#isSending = false;
  }

  #follow(): Disposable {
    const { database, session, version } = this.#options;
    return session.watch({
      with: heartbeat,
      values: () => [
        this.id,
        database.replica,
        version,
        JSON.stringify(this.#settings),
        JSON.stringify(this.#marks),
      ],
      columns: {
        message: "(SELECT max(no) FROM sluice.messages WHERE receiver = $1)",
        others: selectOtherSettings("$1", "$4"),
      },
      seen: (row) => {
        // Only the look above writes the column.
        this.#compare(row["others"] as readonly OtherSettings[]);
        if (optionalNumber(row, "message") === undefined) this.#readable();
        else void this.#read();
      },
      failed: (error) => this.#unreadable(error),
    });
  }

  #readable(): void {
    if (!this.#isHealthy)
      this.#options.log.info({}, "messages of other gateways are readable again");
    this.#isHealthy = true;
  }

  #unreadable(error: unknown): void {
    if (this.#isHealthy) {
      this.#options.log.error({ err: error }, "cannot read the messages of other gateways");
    }
    this.#isHealthy = false;
  }

  /** Never rejects. */
  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    const { log } = this.#options;
    try {
      const rows = await this.#query(take, [this.id]);
      this.#readable();
      const failed = (error: unknown): void =>
        log.error({ err: error }, "a message of another gateway was not handled");
      for (const row of rows.toSorted((a, b) => number(a, "no") - number(b, "no"))) {
        void runGuarded(() => this.#receive(row), failed);
      }
    } catch (error) {
      this.#unreadable(error);
    }
    this.#isReading = false;
  }

  #receive(row: Row): void | Promise<void> {
    const message = this.#seal.open(blob(row, "body"));
    if (message === undefined) {
      this.#options.log.warn({}, "a message in the database was not made by this deployment");
      return;
    }
    const { topic, from, value, question } = message;
    if (topic === undefined) return this.#answered(message);
    const receivers = this.#receivers.get(topic) ?? [];
    const results = receivers.map((receive) => receive(value));
    if (question === undefined) return Promise.all(results).then(() => {});
    return Promise.resolve(results.at(-1)).then((result) => {
      const answer = receivers.length === 0 ? undefined : { value: result };
      this.#send({ topic: undefined, from: this.id, value: answer, question }, from);
    });
  }

  #answered({ from, value, question = 0 }: ReplicaMessage): void {
    const asked = this.#questions.get(question);
    // Only `#receive` of another gateway sends answers.
    asked?.answers.set(from, value as { readonly value: unknown } | undefined);
    asked?.onAnswer();
  }

  /** Counts the gateways whose settings differ, and logs each change of the difference once. */
  #compare(differing: readonly OtherSettings[]): void {
    const { log } = this.#options;
    const difference = differenceFrom(this.#settings, differing);
    this.#differing.set(difference?.gateways.length ?? 0);
    const shown = difference && JSON.stringify(difference);
    if (shown === this.#loggedDifference) return;
    this.#loggedDifference = shown;
    if (difference === undefined) {
      log.info({}, "all gateways on this database have the same settings again");
    } else {
      log.warn(
        difference,
        "other gateways on this database have other settings in these sections, and each gateway applies its own",
      );
    }
  }

  async #query(statement: string, values: readonly unknown[]): Promise<readonly Row[]> {
    const { database } = this.#options;
    try {
      return await database.query("replicas", statement, values);
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  }

  /** Runs `work` and ignores its failure: the next look logs that the database cannot be reached. */
  async #quietly(work: () => Promise<unknown>): Promise<void> {
    await work().catch(() => {});
  }
}
