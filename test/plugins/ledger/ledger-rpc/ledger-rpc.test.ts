/** The surface `ledger-rpc`: how the ledger's JSON-RPC uses the caller's account and HTTP. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Charge } from "sluice-gateway/services";
import ledgerRpc from "../../../../plugins/ledger/ledger-rpc/index.ts";
import type { Reply, SurfaceHooks } from "../../../../src/plugin.ts";
import { ledgersOf, request, testLedger, type TestLedger } from "../ledger/fixture.ts";
import { fakeExchange, fakeHost } from "../../fakes.ts";

/** A charge that records the operations on it. */
class FakeCharge implements Charge {
  readonly refusal: Reply | undefined;
  readonly done: string[] = [];
  usedMilliCu: number | undefined;

  constructor(refusal?: Reply) {
    this.refusal = refusal;
  }

  reserve(costMilliCu: number): Reply | undefined {
    this.done.push(`reserve ${costMilliCu}`);
    return this.refusal;
  }

  open(): { readonly kind: "unavailable" } {
    return { kind: "unavailable" };
  }

  settle(lines: Parameters<Charge["settle"]>[0]): void {
    this.usedMilliCu = lines.reduce((sum, line) => sum + line.costMilliCu, 0);
    this.done.push(
      `settle ${lines.map((line) => `${line.method} ${line.costMilliCu}`).join(", ")}`,
    );
  }
}

async function started(): Promise<TestLedger & { hooks: SurfaceHooks }> {
  const test = testLedger();
  const host = fakeHost({}, { ledger: ledgersOf(test.ledger) });
  return { ...test, hooks: await ledgerRpc.start({ upstream: "ledger" }, host) };
}

const send = (
  hooks: SurfaceHooks,
  charge: Charge,
  body: string,
): Reply | undefined | Promise<Reply | undefined> =>
  hooks.answer(fakeExchange({ method: "POST", body, slots: { charge } }));

describe("ledger-rpc", () => {
  it("waits for credit that must be asked for, and only then calls the node", async () => {
    const { hooks, pool } = await started();
    const charge = new FakeCharge();
    const asked = Promise.withResolvers<undefined>();
    const replied = send(
      hooks,
      Object.assign(charge, { reserve: () => asked.promise }),
      request("chain_getBlock", "[]"),
    );
    assert.deepEqual(pool.sent, []);
    asked.resolve(undefined);
    await new Promise(setImmediate);
    assert.equal(pool.sent.length, 1);
    pool.result("{}");
    assert.equal((await replied)?.status, 200);
  });

  it("settles at 0 if no node answers, and logs that", async () => {
    for (const [reason, outcome] of [
      ["unreachable", "upstreamFailed"],
      ["garbage", "upstreamFailed"],
      ["timeout", "timedOut"],
    ] as const) {
      const { hooks, pool } = await started();
      const charge = new FakeCharge();
      const replied = send(hooks, charge, request("chain_getHead"));
      pool.fail(reason);
      assert.deepEqual(await replied, {
        status: 200,
        headers: ["content-type", "application/json"],
        body: '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal Error"}}',
        outcome,
      });
      assert.deepEqual(charge.done, ["reserve 100", "settle "]);
      assert.equal(charge.usedMilliCu, 0);
    }
  });

  it("does not use the account for a free request", async () => {
    const { hooks, pool } = await started();
    const charge = new FakeCharge();
    for (const body of ["", "{", "[]", "5", request("author_rotateKeys")]) {
      assert.equal((await send(hooks, charge, body))?.status, 200, body);
    }
    assert.deepEqual([charge.done, pool.sent], [[], []]);
  });

  it("does not start without its upstream", async () => {
    await assert.rejects(
      async () =>
        await ledgerRpc.start({ upstream: "other" }, fakeHost({}, { ledger: ledgersOf() })),
      /no upstream named other/,
    );
  });
});
