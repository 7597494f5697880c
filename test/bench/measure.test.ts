import assert from "node:assert/strict";
import { test } from "node:test";
import type { Driver, RequestLoad } from "../../bench/load/driver.ts";
import { columns, measureRow, type Row } from "../../bench/load/measure.ts";
import type { Peer } from "../../bench/load/process.ts";

const method = {
  seconds: 1,
  connections: [8, 32],
  streams: [],
  tokens: 1,
  isAgent: false,
  restMs: 0,
};
const workload = { title: "", backend: "", path: "/", rate: 3_000, yardstick: "", targets: [] };
const failed = new Error('{"503":1}, 0 JSON-RPC errors');

/** Measures a peer that needs 50 µs of CPU per request. `latency`: milliseconds of the answers to a load, or a failure. */
function measure(latency: (load: RequestLoad) => number | Error): Promise<Row> {
  let cpuMicros = 0;
  const peer: Peer = {
    port: 1,
    line: "",
    cpuMicros: () => cpuMicros,
    rssMiB: () => 64,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  const driver: Driver = {
    requests(load) {
      const ms = latency(load);
      if (typeof ms !== "number") return Promise.reject(ms);
      const requests = 20_000;
      cpuMicros += 50 * requests;
      const answers = { requests, seconds: 1, statuses: { 200: requests }, errors: 0 };
      return Promise.resolve({ ...answers, cpuMicros: 10, p50: ms, p99: 2 * ms });
    },
    streams: () => Promise.reject(failed),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  const start = () => Promise.resolve({ peer, headers: [] });
  return measureRow({ workload, backend: peer, driver, method }, { name: "peer", start });
}

test("a cell with failed answers has no figure, and the others have theirs", async () => {
  const { figures, faults } = await measure(({ connections }) => (connections === 8 ? failed : 1));
  assert.equal(figures.get(columns.cpu(8)), undefined);
  assert.equal(figures.get(columns.cpu(32)), 50);
  assert.equal(figures.get(columns.p99), 2_000);
  assert.deepEqual(faults, [`8 connections: Error: ${failed.message}`]);
});

test("the best rate is the highest one whose tail is short enough", async () => {
  const { figures } = await measure(({ rate = 0 }) => rate / 4_000);
  assert.equal(figures.get(columns.tail(1)), 2_000);
  assert.equal(figures.get(columns.tail(5)), 10_000);
  assert.equal(figures.get(columns.tail(10)), 20_000);
  assert.equal(figures.get(columns.atRate(3_000)), 0.75);
});

test("a rate with failed answers is not the best one", async () => {
  const { figures, faults } = await measure(({ rate = 0 }) => (rate > 5_000 ? failed : 0.1));
  assert.equal(figures.get(columns.tail(1)), 5_000);
  assert.deepEqual(faults, [`fixed rates: Error: ${failed.message}`]);
});

test("a target that does not start has no figures", async () => {
  const broken = { name: "broken", start: () => Promise.reject(new Error("no port")) };
  const unused = undefined as never;
  const { figures, faults } = await measureRow(
    { workload, backend: unused, driver: unused, method },
    broken,
  );
  assert.equal(figures.size, 0);
  assert.deepEqual(faults, ["Error: no port"]);
});
