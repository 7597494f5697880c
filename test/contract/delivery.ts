/** Tests of the delivery of charges to a billing system. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { startSink, type Sink } from "../e2e/billing-sink.ts";
import { until } from "../plugins/billing/shipping/fixture.ts";
import {
  charge,
  createKey,
  hour,
  metric,
  type KnownKey,
  type OpenGateways,
  type StoreGateways,
} from "./gateways.ts";

interface Delivery {
  readonly gateways: StoreGateways;
  readonly key: KnownKey;
  readonly sink: Sink;
  readonly call: (count: number) => Promise<void>;
  /** Resolves when so many different events have arrived and their answers were received. */
  readonly arrived: (count: number) => Promise<void>;
  /** Returns the ids of all events in the order in which they arrived. */
  readonly ids: () => readonly string[];
  readonly restart: (ms?: number) => Promise<void>;
}

async function accepted({ one, other }: StoreGateways): Promise<number> {
  const name = "sluice_usage_export_events_total";
  const ofOne = await metric(one, name);
  return one.adminUrl === other.adminUrl ? ofOne : ofOne + (await metric(other, name));
}

async function start(t: TestContext, open: OpenGateways): Promise<Delivery> {
  const sink = await startSink();
  const gateways = await open(t, { sinkUrl: sink.url });
  // The gateways stop first, because a stop may wait for an answer of the sink.
  t.after(() => sink[Symbol.asyncDispose]());
  const key = await createKey(gateways, "enterprise");
  const ids = (): readonly string[] => sink.batches.flat().map(({ id }) => id);
  let calls = 0;
  /** Number of different events that were delivered by now, and at the last start. */
  let last = 0;
  let atStart = 0;
  return {
    gateways,
    key,
    sink,
    async call(count) {
      for (let n = 0; n < count; n++) {
        const { one, other } = gateways;
        const line = { surface: "chat", method: "m", costMilliCu: ++calls };
        await charge(calls % 2 === 0 ? one : other, key, [line], { requestId: `r${calls}` });
      }
    },
    async arrived(count) {
      await sink.until(() => new Set(ids()).size >= count);
      // An event whose answer was not received before a stop is delivered again.
      await until(async () => (await accepted(gateways)) >= count - atStart);
      last = count;
    },
    async restart(ms = 0) {
      await gateways.pass(ms);
      atStart = last;
    },
    ids,
  };
}

async function exported({ gateways }: Delivery): Promise<readonly Record<string, unknown>[]> {
  const { out } = await gateways.run("usage", "export");
  return out.map((line) => JSON.parse(line) as Record<string, unknown>);
}

export function describeDelivery(name: string, open: OpenGateways): void {
  describe(`delivery of charges: ${name}`, () => {
    test("each charge arrives once as a CloudEvent with the members of its row, in batches of at most the configured size", async (t) => {
      const delivery = await start(t, open);
      const { sink, key } = delivery;
      await delivery.call(8);
      await delivery.arrived(8);
      const rows = await exported(delivery);
      assert.deepEqual([...delivery.ids()].toSorted(), rows.map(({ id }) => String(id)).toSorted());
      assert.ok(sink.batches.every(({ length }) => length >= 1 && length <= 3));
      const events = new Map(sink.batches.flat().map((event) => [event.id, event]));
      for (const { id, time, ...members } of rows) {
        const { data, ...head } = events.get(String(id)) ?? assert.fail(String(id));
        assert.deepEqual(head, {
          specversion: "1.0",
          id,
          source: "sluice",
          type: "sluice.charge",
          subject: key.workspaceId,
          time,
          datacontenttype: "application/json",
        });
        assert.deepEqual({ ...data, ...members }, data);
      }
    });

    test("after a restart, the delivery continues after the last event, and no event is repeated", async (t) => {
      const delivery = await start(t, open);
      await delivery.call(5);
      await delivery.arrived(5);
      await delivery.restart(hour);
      await delivery.call(4);
      await delivery.arrived(9);
      await delivery.restart();
      await delivery.call(1);
      await delivery.arrived(10);
      assert.equal(delivery.ids().length, 10);
    });

    test("a batch that was not answered is delivered again after a restart, with the same ids", async (t) => {
      const delivery = await start(t, open);
      const { sink } = delivery;
      await delivery.call(2);
      await delivery.arrived(2);
      sink.mode.answers = false;
      const before = delivery.ids().length;
      await delivery.call(3);
      await sink.until(() => delivery.ids().length > before);
      await delivery.restart();
      sink.mode.answers = true;
      await delivery.restart();
      await delivery.call(3);
      await delivery.arrived(8);
      const rows = await exported(delivery);
      assert.deepEqual(
        [...new Set(delivery.ids())].toSorted(),
        rows.map(({ id }) => String(id)).toSorted(),
      );
    });

    test("the events of one gateway arrive in the order of its charges", async (t) => {
      const delivery = await start(t, open);
      const { gateways, key } = delivery;
      for (let n = 0; n < 20; n++) {
        const line = { surface: "chat", method: "m", costMilliCu: n };
        await charge(gateways.one, key, [line], { requestId: `r${n}` });
      }
      await delivery.arrived(20);
      const order = delivery.sink.batches.flat().map(({ data }) => data.request_id);
      assert.deepEqual(
        order,
        Array.from({ length: 20 }, (_, n) => `r${n}`),
      );
    });
  });
}
