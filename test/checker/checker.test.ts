/** Each rule of the checker finds a small history that breaks it, and accepts one that does not. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { check, cutCalls, overshootOf, type Violations } from "./checker.ts";
import {
  nothing,
  type Call,
  type Charge,
  type History,
  type LimitedScope,
  type OnceOnly,
  type RateLimit,
} from "./history.ts";

const key = "key_1";
const workspaceId = "ws_1";

function callOf(id: string, more: Partial<Call> = {}): Call {
  return {
    id,
    replica: "one-1",
    keyId: key,
    workspaceId,
    start: 10_000,
    end: 10_010,
    status: 200,
    isWhole: true,
    milliCu: 7,
    maxMilliCu: 7,
    ...more,
  };
}

const chargeOf = (requestId: string, milliCu = 7): Charge => ({
  requestId,
  keyId: key,
  workspaceId,
  milliCu,
});

const refused = { status: 429, milliCu: 0 };

const limitOf = (limitMilliCu: number): LimitedScope => ({
  kind: "key",
  id: key,
  limitMilliCu,
  isFixed: true,
});

const historyOf = (more: Partial<History>): History => ({ ...nothing, ...more });

function broken(more: Partial<History>): Partial<Record<keyof Violations, number>> {
  const found = Object.entries(check(historyOf(more))).map(([rule, all]) => [rule, all.length]);
  return Object.fromEntries(found.filter(([, count]) => count !== 0)) as never;
}

test("the checker imports nothing of the product, and has at most 500 lines", () => {
  const names = readdirSync(import.meta.dirname).filter((name) => !name.endsWith(".test.ts"));
  const texts = names.map((name) => readFileSync(join(import.meta.dirname, name), "utf8"));
  const imported = texts.flatMap((text) =>
    Array.from(text.matchAll(/ from "([^"]+)"/g), ([, from = ""]) => from),
  );
  assert.ok(imported.length > 0);
  assert.deepEqual(
    imported.filter((from) => !from.startsWith("./")),
    [],
  );
  const lines = texts.reduce((sum, text) => sum + text.split("\n").length - 1, 0);
  assert.ok(lines <= 500, `${lines} lines`);
});

describe("charges", () => {
  test("every whole answer has one charge of its price", () => {
    const calls = [callOf("a"), callOf("free", { milliCu: 0 })];
    assert.deepEqual(broken({ calls, charges: [chargeOf("a")] }), {});
    assert.deepEqual(broken({ calls }), { lost: 1 });
    assert.deepEqual(broken({ calls, charges: [chargeOf("a"), chargeOf("a")] }), { doubled: 1 });
    assert.deepEqual(broken({ calls, charges: [chargeOf("a", 8)] }), { wrong: 1 });
    const dear = [callOf("a", { maxMilliCu: 6 })];
    assert.deepEqual(broken({ calls: dear, charges: [chargeOf("a")] }), { wrong: 1 });
    const both = [chargeOf("a"), chargeOf("free")];
    assert.deepEqual(broken({ calls, charges: both }), { wrong: 1 });
  });

  test("a call that was cut or answered 500 may be charged once, and never above its reservation", () => {
    const cut = callOf("a", { status: 200, isWhole: false, milliCu: 0 });
    const failed = callOf("b", { status: 500, milliCu: 0 });
    const charges = [chargeOf("a", 3), chargeOf("b")];
    assert.deepEqual(broken({ calls: [cut, failed], charges }), {});
    assert.deepEqual(broken({ calls: [cut, failed] }), {});
    assert.equal(cutCalls(historyOf({ calls: [cut, failed], charges })), 2);
    assert.deepEqual(broken({ calls: [cut], charges: [chargeOf("a", 8)] }), { wrong: 1 });
    const twice = [chargeOf("a", 3), chargeOf("a", 3)];
    assert.deepEqual(broken({ calls: [cut], charges: twice }), { doubled: 1 });
  });

  test("a batch has one charge per line, and their sum is its price", () => {
    const batch = callOf("a", { milliCu: 21, maxMilliCu: 21, lines: 3 });
    const line = chargeOf("a");
    assert.deepEqual(broken({ calls: [batch], charges: [line, line, line] }), {});
    assert.deepEqual(broken({ calls: [batch], charges: [line, line] }), { lost: 1, wrong: 1 });
    assert.deepEqual(broken({ calls: [batch], charges: [line, line, line, line] }), { doubled: 1 });
    assert.deepEqual(broken({ calls: [batch] }), { lost: 1 });
    const cut = { ...batch, isWhole: false, milliCu: 0 };
    assert.deepEqual(broken({ calls: [cut], charges: [line, line, line] }), {});
    assert.deepEqual(broken({ calls: [cut], charges: [line, line] }), { lost: 1 });
  });

  test("a call that was answered 503 or 429 is not charged", () => {
    const faults = [{ from: 10_000, to: 10_000 }];
    for (const status of [503, 429]) {
      const calls = [callOf("a", { status, milliCu: 0 })];
      assert.deepEqual(broken({ calls, faults }), {});
      assert.deepEqual(broken({ calls, faults, charges: [chargeOf("a")] }), { wrong: 1 });
    }
  });

  test("a charge belongs to a call", () => {
    assert.deepEqual(broken({ charges: [chargeOf("a")] }), { wrong: 1 });
  });
});

describe("work", () => {
  const logged = callOf("a", { isLogged: true });
  const charges = [chargeOf("a")];

  test("what is answered or charged was done by a worker, possibly several times", () => {
    assert.deepEqual(broken({ calls: [logged], charges, worked: ["a", "a"] }), {});
    assert.deepEqual(broken({ calls: [logged], charges }), { work: 1 });
    assert.deepEqual(broken({ calls: [callOf("a")], charges }), {});
    const cut = { ...logged, isWhole: false, milliCu: 0 };
    assert.deepEqual(broken({ calls: [cut], charges }), { work: 1 });
    assert.deepEqual(broken({ calls: [{ ...cut, hasLeft: true }], charges }), {});
    assert.deepEqual(broken({ calls: [cut] }), {});
    assert.deepEqual(broken({ calls: [logged] }), { lost: 1, work: 1 });
  });

  test("a refused call reaches no worker", () => {
    for (const status of [401, 403, 429]) {
      const calls = [{ ...logged, status, milliCu: 0 }];
      assert.deepEqual(broken({ calls }), {});
      assert.deepEqual(broken({ calls, worked: ["a"] }), { work: 1 });
    }
    const failed = { ...logged, status: 500, milliCu: 0 };
    assert.deepEqual(broken({ calls: [failed], worked: ["a"] }), {});
  });
});

describe("limits", () => {
  const calls = ["a", "b"].map((id) => callOf(id));
  const charges = ["a", "b"].map((id) => chargeOf(id));

  test("neither the charges nor the answers exceed a limit", () => {
    const exact = { calls, charges, scopes: [limitOf(14)] };
    assert.deepEqual(broken(exact), {});
    const less = { calls, charges, scopes: [limitOf(13)] };
    assert.deepEqual(broken(less), { overshoot: 2 });
    assert.equal(overshootOf(historyOf(less)), 1);
    assert.deepEqual(broken({ ...less, calls: [] }), { overshoot: 1, wrong: 2 });
    assert.deepEqual(broken({ ...less, charges: [] }), { overshoot: 1, lost: 2 });
  });

  test("what the audit finds is reported", () => {
    const found = { scope: key, chargedMilliCu: 5, heldMilliCu: 6, limitMilliCu: 10 };
    assert.deepEqual(broken({ exceeded: [found] }), { overshoot: 1 });
    assert.equal(overshootOf(historyOf({ exceeded: [found] })), 1);
  });

  test("tables of sums equal the charges", () => {
    const sums = [{ of: "key_steps", id: key, milliCu: 14 }];
    assert.deepEqual(broken({ calls, charges, sums }), {});
    assert.deepEqual(broken({ calls, charges: [...charges].slice(1), sums }), { lost: 1, sums: 1 });
    const other = [{ of: "draws", id: "ws_2", milliCu: 1 }];
    assert.deepEqual(broken({ sums: other }), { sums: 1 });
  });
});

describe("refusals", () => {
  const paid = callOf("paid", { start: 1_000, end: 1_010 });
  const charges = [chargeOf("paid")];
  const refusal = callOf("refused", refused);

  test("a refusal needs a limit that the call would have exceeded", () => {
    const calls = [paid, refusal];
    assert.deepEqual(broken({ calls, charges, scopes: [limitOf(13)] }), {});
    assert.deepEqual(broken({ calls, charges, scopes: [limitOf(14)] }), { unjustified: 1 });
    const changing = { ...limitOf(14), isFixed: false };
    assert.deepEqual(broken({ calls, charges, scopes: [changing] }), {});
  });

  test("a call that may have been open justifies it, and one that came later does not", () => {
    const open = callOf("open", { start: 9_990, end: 10_020, isWhole: false });
    const scopes = [limitOf(14)];
    assert.deepEqual(broken({ calls: [paid, open, refusal], charges, scopes }), {});
    const later = callOf("later", { start: 10_011, end: 10_020, isWhole: false });
    assert.deepEqual(broken({ calls: [paid, later, refusal], charges, scopes }), {
      unjustified: 1,
    });
  });
});

test("where one gateway decides alone, only calls that are open at that moment justify a refusal", () => {
  const before = callOf("before", { start: 9_000, end: 9_010, isWhole: false });
  const other = callOf("other", { start: 9_990, end: 10_020, ...refused });
  const refusal = callOf("refused", refused);
  const scopes = [limitOf(13)];
  for (const reason of [before, other]) {
    const calls = [reason, refusal];
    const shared = broken({ calls, scopes });
    assert.equal(shared.unjustified ?? 0, 0);
    assert.ok((broken({ calls, scopes, isAlone: true }).unjustified ?? 0) > 0);
  }
  const open = callOf("open", { start: 9_990, end: 10_020, isWhole: false });
  assert.deepEqual(broken({ calls: [open, refusal], scopes, isAlone: true }), {});
});

describe("503 without a fault", () => {
  /** Ten calls of a key, of which some are answered with 503. */
  const calls = (keyId: string, unavailable: number): Call[] =>
    Array.from({ length: 10 }, (_, n) => {
      const status = n < unavailable ? 503 : 200;
      return callOf(`${keyId} ${n}`, { keyId, workspaceId: "ws_2", status, milliCu: 0 });
    });
  const scopes = [limitOf(1_000)];

  test("one in ten may be answered with 503, with limited credit and with unlimited credit", () => {
    assert.deepEqual(broken({ scopes, calls: [...calls(key, 1), ...calls("other", 1)] }), {});
    assert.deepEqual(broken({ scopes, calls: [...calls(key, 2), ...calls("other", 0)] }), {
      unavailable: 1,
    });
    assert.deepEqual(broken({ scopes, calls: [...calls(key, 2), ...calls("other", 2)] }), {
      unavailable: 2,
    });
  });

  test("calls during a fault and in the five seconds after its repair are not counted", () => {
    const during = (from: number, to: number): unknown =>
      broken({ scopes, calls: calls(key, 5), faults: [{ from, to }] });
    assert.deepEqual(during(10_005, 10_006), {});
    assert.deepEqual(during(4_000, 5_000), {});
    assert.deepEqual(during(4_000, 4_999), { unavailable: 1 });
    assert.deepEqual(during(10_011, 10_020), { unavailable: 1 });
  });
});

describe("the rest", () => {
  test("a request with an idempotency key or a token takes effect once, and its answers are equal", () => {
    const once: OnceOnly = { id: "a", effects: 1, bodies: ["x", "x"] };
    assert.deepEqual(broken({ onceOnly: [once, { id: "b", effects: 0, bodies: [] }] }), {});
    assert.deepEqual(broken({ onceOnly: [{ ...once, effects: 2 }] }), { repeated: 1 });
    assert.deepEqual(broken({ onceOnly: [{ ...once, effects: 0 }] }), { repeated: 1 });
    assert.deepEqual(broken({ onceOnly: [{ ...once, bodies: ["x", "y"] }] }), { repeated: 1 });
  });

  test("a replica that has confirmed a revocation does not serve the key", () => {
    const revocation = {
      keyId: key,
      committedAt: 9_000,
      confirmedAt: 9_500,
      confirmedBy: ["one-1"],
      notConfirmedBy: ["two-1"],
    };
    const given = { charges: [chargeOf("a")], revocations: [revocation] };
    assert.deepEqual(broken({ ...given, calls: [callOf("a")] }), { revoked: 1 });
    assert.deepEqual(broken({ ...given, calls: [callOf("a", { start: 9_400 })] }), {});
    assert.deepEqual(broken({ ...given, calls: [callOf("a", { replica: "two-1" })] }), {});
    assert.deepEqual(broken({ ...given, calls: [callOf("a", { keyId: "key_2" })] }), {});
    const refusal = callOf("a", { status: 401, milliCu: 0 });
    assert.deepEqual(broken({ revocations: [revocation], calls: [refusal] }), {});
  });

  test("admissions fit into the burst and the rate, and a disruption of Redis allows more", () => {
    const rate: RateLimit = { keyId: key, perSecond: 10, burst: 2, disruptions: [] };
    const at = (...starts: readonly number[]): Call[] =>
      starts.map((start, n) => callOf(`r${n}`, { start, end: start + 10, milliCu: 0 }));
    assert.deepEqual(broken({ rates: [rate], calls: at(0, 0, 100, 200) }), {});
    assert.deepEqual(broken({ rates: [rate], calls: at(0, 0, 0) }), { rate: 1 });
    assert.deepEqual(broken({ rates: [rate], calls: at(0, 500, 500, 500) }), { rate: 1 });
    const during = { ...rate, disruptions: [{ from: 5, to: 5, extra: 3 }] };
    assert.deepEqual(broken({ rates: [during], calls: at(0, 0, 0, 0, 0) }), {});
    assert.deepEqual(broken({ rates: [during], calls: at(0, 0, 0, 0, 0, 0) }), { rate: 1 });
    const elsewhere = { ...rate, disruptions: [{ from: 500, to: 600, extra: 3 }] };
    assert.deepEqual(broken({ rates: [elsewhere], calls: at(0, 0, 0) }), { rate: 1 });
  });
});
