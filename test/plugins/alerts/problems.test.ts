/** Tests of the state machine of problems, and of the functions that find them in the state of a gateway. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ejectedBackends,
  failedReload,
  lowDisk,
  stuckExport,
} from "../../../plugins/alerts/alerts/gateway-problems.ts";
import { Problems, type Problem } from "../../../plugins/alerts/alerts/problems.ts";
import type { BackendStatus } from "../../../src/plugin.ts";

const minute = 60_000;

function problem(id: string): Problem {
  return {
    id,
    raised: { type: "backend.ejected", summary: id, data: {} },
    resolved: { type: "backend.returned", summary: id, data: {} },
  };
}

function reported(
  problems: Problems,
  prefix: string,
  ids: readonly string[],
  now: number,
): string[] {
  return problems
    .update(prefix, ids.map(problem), now)
    .map(({ type, summary }) => `${type} ${summary}`);
}

test("a problem is reported once, and its end once", () => {
  const problems = new Problems();
  assert.deepEqual(reported(problems, "b", ["b1", "b2"], 0), [
    "backend.ejected b1",
    "backend.ejected b2",
  ]);
  assert.deepEqual(reported(problems, "b", ["b1", "b2"], minute), []);
  assert.deepEqual(reported(problems, "b", ["b2"], 2 * minute), ["backend.returned b1"]);
  assert.deepEqual(reported(problems, "b", ["b2"], 3 * minute), []);
});

test("the problems of one source do not end those of another", () => {
  const problems = new Problems();
  reported(problems, "b", ["b1"], 0);
  assert.deepEqual(reported(problems, "d", ["d1"], 0), ["backend.ejected d1"]);
  assert.deepEqual(reported(problems, "d", [], 0), ["backend.returned d1"]);
});

test("a problem that comes and goes is reported once in ten minutes", () => {
  const problems = new Problems();
  const seen: string[] = [];
  for (let at = 0; at < 20; at++) {
    seen.push(...reported(problems, "b", at % 2 === 0 ? ["b1"] : [], at * minute));
  }
  assert.deepEqual(seen, [
    "backend.ejected b1",
    "backend.returned b1",
    "backend.ejected b1",
    "backend.returned b1",
  ]);
});

test("a problem that returns in the quiet time and stays is reported after it", () => {
  const problems = new Problems();
  reported(problems, "b", ["b1"], 0);
  reported(problems, "b", [], minute);
  assert.deepEqual(reported(problems, "b", ["b1"], 9 * minute), []);
  assert.deepEqual(reported(problems, "b", ["b1"], 10 * minute), ["backend.ejected b1"]);
});

test("the number of problems that are remembered is bounded", () => {
  const problems = new Problems();
  const ids = Array.from({ length: 5_000 }, (_, at) => `b${at}`);
  assert.equal(reported(problems, "b", ids, 0).length, 1_000);
  assert.equal(reported(problems, "b", [], 10 * minute).length, 1_000);
  assert.equal(reported(problems, "b", ["b0"], 11 * minute).length, 1);
});

function ejected(backend: Partial<BackendStatus>): (object | string)[] {
  const status = { kind: "upstream", title: "upstream api", ready: true as const, ...backend };
  return ejectedBackends({ backends: [status] }).flatMap(({ raised, resolved }) => [
    raised.data,
    raised.summary,
    resolved?.type ?? "",
  ]);
}

test("each ejected server of a backend is a problem", () => {
  const urls = [
    { name: "10.0.0.1:80", state: "usable" },
    { name: "10.0.0.2:80", state: "unreachable" },
  ];
  assert.deepEqual(ejected({ details: { urls } }), [
    { kind: "upstream", backend: "upstream api", server: "10.0.0.2:80", reason: "unreachable" },
    "10.0.0.2:80 of upstream api is not used: unreachable",
    "backend.returned",
  ]);
});

test("workers that are busy, draining or not admitted are not ejected", () => {
  const workers = ["active", "busy", "draining", "not admitted"].map((state) => ({
    name: state,
    state,
  }));
  assert.deepEqual(ejected({ details: { workers } }), []);
  const left = [{ name: "w1", state: "left out" }];
  assert.equal(ejected({ details: { workers: left } }).length, 3);
});

test("a backend that cannot be used is a problem, also without a list of servers", () => {
  assert.deepEqual(ejected({ ready: "no usable worker", details: { workers: [] } }), [
    { kind: "upstream", backend: "upstream api", reason: "no usable worker" },
    "upstream api is not used: no usable worker",
    "backend.returned",
  ]);
});

test("a backend at a default address is not a problem", () => {
  assert.deepEqual(ejected({ ready: "unreachable", isDefault: true }), []);
});

test("details that are not as expected are ignored, and long names are cut", () => {
  for (const urls of [null, 5, "text", [null, 5, {}, { name: 1, state: "x" }]]) {
    assert.deepEqual(ejected({ details: { urls } }), []);
  }
  const [raised] = ejected({ details: { urls: [{ name: "x".repeat(9_999), state: "down" }] } });
  assert.ok(JSON.stringify(raised).length < 500);
});

test("a failed reload lists the first faults", () => {
  assert.deepEqual(failedReload({ generation: 1, reload: { faults: [] } }), []);
  assert.deepEqual(failedReload({ generation: 1, reload: {} }), []);
  const fault = { code: "SLUICE_X", message: "unknown step", at: { line: 3, col: 1 } };
  const faults = [fault, ...Array<unknown>(20).fill(null)];
  const [found] = failedReload({ generation: 4, reload: { faults } });
  assert.match(found?.raised.summary ?? "", /unknown step/);
  const data = found?.raised.data as { readonly faults: readonly object[] };
  assert.equal(data.faults.length, 10);
  assert.deepEqual(data.faults[0], { code: "SLUICE_X", message: "unknown step", line: 3 });
});

test("the export is stuck if the sink refuses, or if a charge waits too long", () => {
  const at = (stopped: number, lagSeconds: number): unknown => {
    const metric = (name: string) => [
      { labels: {}, value: name === "sluice_usage_export_stopped" ? stopped : lagSeconds },
    ];
    return stuckExport({ metric }, 900_000)[0]?.raised.data;
  };
  assert.equal(at(0, 900), undefined);
  assert.deepEqual(at(0, 901), { reason: "behind", lag_seconds: 901 });
  assert.deepEqual(at(1, 5), { reason: "refused", lag_seconds: 5 });
  assert.deepEqual(stuckExport({ metric: () => [] }, 900_000), []);
});

test("the disk is low below the limit, and an unknown size is ignored", () => {
  const at = (freeBytes: number, totalBytes = 1_000): unknown =>
    lowDisk({ freeBytes, totalBytes }, "/data", 10)[0]?.raised.data;
  assert.equal(at(100), undefined);
  assert.deepEqual(at(99), {
    folder: "/data",
    free_bytes: 99,
    total_bytes: 1_000,
    free_percent: 9.9,
  });
  assert.equal(at(0, 0), undefined);
  assert.deepEqual(lowDisk(undefined, "/data", 10), []);
});
