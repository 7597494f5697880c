/**
 * Tests of the algorithm that makes batches of a journal, of the parsers of the cursor and of positions, and of the state
 * machine of one delivery over HTTP.
 */
import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readFileSync, writeFileSync } from "node:fs";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import {
  type BatchJob,
  folderPages,
  makeBatch,
} from "../../../../../plugins/billing/metering/export/batch.ts";
import { openFileCursor } from "../../../../../plugins/billing/metering/export/cursor.ts";
import {
  lastRead,
  moved,
  parsePosition,
  positionText,
  start,
} from "../../../../../plugins/billing/metering/export/database-pages.ts";
import { send } from "../../../../../plugins/billing/metering/export/send.ts";
import { readUsage } from "../../../../../plugins/billing/metering/read-usage.ts";
import { charge, meterFixture, principalOf, take } from "../fixture.ts";

const form = { source: "sluice", type: "sluice.charge", subject: "workspace" } as const;

interface Event {
  readonly id: string;
  readonly subject: string;
  readonly data: Readonly<Record<string, unknown>>;
}

async function batchOf(job: Pick<BatchJob, "dataDir"> & Partial<BatchJob>) {
  const range = { after: undefined, limit: 100, ...job };
  const batch = await makeBatch(folderPages(job.dataDir), range, { ...form, ...job.form });
  // The shape that these tests check.
  return batch && { ...batch, events: JSON.parse(batch.events) as Event[] };
}

describe("a batch of charges", () => {
  it("continues after any charge, also in the middle of a commit, and reports whether there are more", async (t) => {
    const { dataDir, open } = meterFixture(t);
    const meter = await open();
    const principal = principalOf();
    await Promise.all([1, 2, 3].map((cost) => charge(meter, principal, cost)));
    const twice = take(meter, principal, 10);
    await twice.settle([
      { surface: "a", method: "m", costMilliCu: 4 },
      { surface: "a", method: "m", costMilliCu: 5 },
    ]);
    const all = [...readUsage(dataDir)].map(({ id }) => id);
    assert.equal(all.length, 5);
    for (const [place, after] of [undefined, ...all].entries()) {
      for (const limit of [1, 2, 5]) {
        const batch = await batchOf({ dataDir, after, limit });
        const expected = all.slice(place, place + limit);
        assert.deepEqual(batch?.events.map(({ id }) => id) ?? [], expected);
        assert.equal(batch?.last, expected.at(-1));
        assert.equal(batch?.more ?? false, place + limit < all.length);
      }
    }
  });

  it("is limited in size but has at least one charge", async (t) => {
    const { dataDir, open } = meterFixture(t);
    const meter = await open();
    const principal = principalOf();
    const requestId = "x".repeat(256);
    await Promise.all(
      Array.from({ length: 1_200 }, () =>
        take(meter, principal, 1, { requestId }).settle([
          { surface: "a", method: "m".repeat(256), costMilliCu: 1 },
        ]),
      ),
    );
    const seen: string[] = [];
    let after: string | undefined;
    for (;;) {
      const batch = await batchOf({ dataDir, after, limit: 10_000 });
      if (batch === undefined) break;
      assert.ok(batch.count < 1_200 && JSON.stringify(batch.events).length < 600_000);
      seen.push(...batch.events.map(({ id }) => id));
      after = batch.last;
    }
    assert.equal(new Set(seen).size, 1_200);
  });
});

describe("the cursor", () => {
  it("keeps its position, even next to a file that a crash left incomplete", async (t) => {
    const { dataDir, open } = meterFixture(t);
    await charge(await open(), principalOf(), 1);
    const [row] = readUsage(dataDir);
    assert.ok(row);
    const cursor = openFileCursor(dataDir);
    assert.deepEqual(await cursor.take(), { after: undefined });
    await cursor.moveTo(row.id);
    writeFileSync(join(dataDir, "usage-export.json.next"), '{"aft');
    assert.deepEqual(await openFileCursor(dataDir).take(), { after: row.id });
    assert.deepEqual(JSON.parse(readFileSync(join(dataDir, "usage-export.json"), "utf8")), {
      after: row.id,
    });
  });

  it("stops the start if it is not of this journal, so that nothing is skipped or sent again", async (t) => {
    const { dataDir, open } = meterFixture(t);
    await charge(await open(), principalOf(), 1);
    const file = join(dataDir, "usage-export.json");
    const [row] = readUsage(dataDir);
    assert.ok(row);
    const journal = row.id.slice(0, row.id.lastIndexOf("_1_"));
    // A journal that was restored without this file, or a file that was written by hand.
    const ahead = [`${journal}_2_0`, `${journal}_1_9`, `${journal}_0_0`];
    const foreign = ["chg_000000000000_1_0", ...ahead].map((after) => JSON.stringify({ after }));
    for (const text of [...foreign, "{}", "", '{"after":7}', "[]"]) {
      writeFileSync(file, text);
      assert.throws(
        () => openFileCursor(dataDir),
        /has a position that is not in this journal/,
        text,
      );
    }
  });
});

async function sinkOf(answer: (req: IncomingMessage, res: ServerResponse) => void) {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // The server listens on TCP.
  const { port } = server.address() as AddressInfo;
  return {
    sink: { url: `http://127.0.0.1:${port}/api/v1/events`, headers: { authorization: "Bearer t" } },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const never = new AbortController().signal;
const body = Buffer.from("[]");

test("the status of the sink decides whether the batch is retried, split, or refused", async () => {
  const cases = [
    [200, "accepted"],
    [408, "unavailable"],
    [429, "unavailable"],
    [500, "unavailable"],
    [503, "unavailable"],
    [301, "refused"],
    [400, "smaller"],
    [401, "refused"],
    [404, "refused"],
    [413, "smaller"],
    [422, "smaller"],
  ] as const;
  for (const [status, expected] of cases) {
    await using on = await sinkOf((_, res) =>
      res.writeHead(status, { "retry-after": "7", location: "/elsewhere" }).end("secret"),
    );
    const sent = await send(on.sink, body, never);
    const kind = sent.kind === "refused" && sent.smaller ? "smaller" : sent.kind;
    assert.equal(kind, expected, String(status));
    if (sent.kind === "unavailable") assert.equal(sent.afterMs, 7_000);
    assert.doesNotMatch(JSON.stringify(sent), /secret/);
  }
});

test("a batch counts as accepted even if the body of the response does not end or breaks off", async () => {
  const late = new AbortController();
  const endings = [(res: ServerResponse) => res.destroy(), () => late.abort()];
  for (const end of endings) {
    let answering: ServerResponse | undefined;
    await using on = await sinkOf((_, res) => {
      answering = res;
      res.writeHead(200).write("taken");
    });
    // The HTTP client of `send` has received the head; code that waits for it runs before the assignment here.
    const onHead = (): unknown => setImmediate(() => answering && end(answering));
    subscribe("http.client.response.finish", onHead);
    assert.deepEqual(await send(on.sink, body, late.signal), { kind: "accepted" });
    unsubscribe("http.client.response.finish", onHead);
  }
});

test("delivery is retried if the sink cannot be reached, breaks off or does not answer in time", async () => {
  const nowhere = { url: "http://127.0.0.1:9/", headers: {} };
  assert.equal((await send(nowhere, body, never)).kind, "unavailable");
  await using broken = await sinkOf((req) => req.socket.destroy());
  assert.equal((await send(broken.sink, body, never)).kind, "unavailable");
  const late = new AbortController();
  await using silent = await sinkOf(() => late.abort());
  assert.deepEqual(await send(silent.sink, body, late.signal), {
    kind: "unavailable",
    reason: "no answer in time",
    afterMs: 0,
  });
});

const live = { id: 1, last: 10, hasEnded: false };

test("a gateway whose charges the database has lost is not read again when they come back", () => {
  const position = moved(start, [live], new Map([[1, 10]]));
  const afterLoss = moved(position, [{ ...live, last: 6 }], new Map());
  assert.equal(lastRead(afterLoss, live), 10);
});

test("a position is written as text and parsed again", () => {
  for (const text of ["cur_0", "cur_17,18:2503,19:12", "cur_3,1:9007199254740991"]) {
    assert.equal(positionText(parsePosition(text) ?? assert.fail(text)), text);
  }
  for (const text of ["", "cur_", "cur_1,", "cur_1,2", "cur_1,2:3 ", "chg_ab_1_0", "cur_-1"]) {
    assert.equal(parsePosition(text), undefined, text);
  }
});
