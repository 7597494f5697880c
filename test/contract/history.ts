/** Tests of the health over time, as the dashboard shows it, with the requests of all gateways. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ask, call, signIn } from "../plugins/dashboard/dashboard/gateway.ts";
import {
  createKey,
  day,
  hour,
  minute,
  type KnownKey,
  type OpenGateways,
  type StoreGateways,
} from "./gateways.ts";

const operator = (gateways: StoreGateways): Promise<KnownKey> =>
  createKey(gateways, "enterprise", { capabilities: ["platform:admin", "ledger:read"] });

interface Shown {
  readonly requests: number;
  readonly failed: number;
  readonly codes: Readonly<Record<string, number>>;
  readonly names: readonly (readonly [string, number])[];
  /** Requests of the steps that have any: number of steps before the last one, and requests. */
  readonly steps: readonly (readonly [number, number])[];
}

async function shown(
  gateways: StoreGateways,
  { text }: KnownKey,
  range: string,
  name = "",
): Promise<Shown> {
  const { other } = gateways;
  const cookie = await signIn(other, text);
  const suffix = name === "" ? "" : `&name=${name}`;
  const { status, body } = await ask(other, `history?range=${range}&by=route${suffix}`, { cookie });
  assert.equal(status, 200);
  const requests = body.series.requests as number[];
  return {
    requests: body.total.requests,
    failed: body.total.failed,
    codes: body.total.codes,
    names: body.names.map((each: { name: string; requests: number }) => [each.name, each.requests]),
    steps: requests
      .map((count, step) => [requests.length - 1 - step, count] as const)
      .filter(([, count]) => count > 0),
  };
}

export function describeHistory(name: string, open: OpenGateways): void {
  describe(`health over time: ${name}`, () => {
    test("requests of all gateways are counted by route and code, also after a restart", async (t) => {
      const gateways = await open(t);
      const key = await operator(gateways);
      for (const gateway of [gateways.one, gateways.other, gateways.one]) {
        assert.equal(await call(gateway, key.text), 200);
      }
      assert.equal(await call(gateways.other, undefined), 401);
      // A gateway stores its requests at the latest when it stops.
      await gateways.pass(0);
      assert.equal(await call(gateways.other, key.text), 200);
      const expected = {
        requests: 5,
        failed: 0,
        codes: { GATEWAY_UNAUTHORIZED: 1 },
        names: [["/call", 5]],
        steps: [[0, 5]],
      };
      assert.deepEqual(await shown(gateways, key, "1h"), expected);
      assert.deepEqual(await shown(gateways, key, "30d"), expected);
      assert.deepEqual(await shown(gateways, key, "1h", "/call"), expected);
      const none = await shown(gateways, key, "1h", "/none");
      assert.deepEqual([none.requests, none.steps], [0, []]);
    });

    test("each request is in the step of its time, and leaves a range after its length", async (t) => {
      const gateways = await open(t);
      const key = await operator(gateways);
      await call(gateways.one, key.text);
      await gateways.pass(30 * minute);
      await call(gateways.one, key.text);
      await call(gateways.other, key.text);
      await gateways.pass(20 * minute);
      const hours = await shown(gateways, key, "1h");
      assert.deepEqual(hours.steps, [
        [50, 1],
        [20, 2],
      ]);
      await gateways.pass(20 * minute);
      assert.equal((await shown(gateways, key, "1h")).requests, 2);
      await gateways.pass(23 * hour);
      await call(gateways.other, key.text);
      assert.deepEqual((await shown(gateways, key, "24h")).names, [["/call", 3]]);
      await gateways.pass(4 * day);
      await call(gateways.other, key.text);
      assert.equal((await shown(gateways, key, "24h")).requests, 1);
      assert.equal((await shown(gateways, key, "7d")).requests, 5);
      await gateways.pass(20 * day);
      await call(gateways.other, key.text);
      assert.equal((await shown(gateways, key, "7d")).requests, 1);
      assert.equal((await shown(gateways, key, "30d")).requests, 6);
      await gateways.pass(32 * day);
      assert.equal((await shown(gateways, key, "30d")).requests, 0);
    });
  });
}
