/** Tests of every implementation of `host.claims` and `host.endings`. Two gateways share the store. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable, Claims, Endings } from "sluice-gateway/plugin";

export interface ClaimsReplica {
  readonly claims: Claims;
  readonly endings: Endings;
}

export interface OpenClaims {
  readonly one: ClaimsReplica;
  readonly other: ClaimsReplica;
  /** Time of the store, in milliseconds since 1970. */
  readonly now: () => number;
  /** Lets time pass for the store and both gateways, with their timers. */
  readonly pass: (ms: number) => Awaitable<void>;
  /** Closes both and opens the same store again, as a restart does. */
  readonly restart: () => Awaitable<ClaimsReplica>;
}

const minuteMs = 60_000;
/** Time after which every replica must know an ending. */
const followMs = 1_000;

export function describeClaims(
  name: string,
  open: (t: TestContext) => Awaitable<OpenClaims>,
): void {
  describe(`claims: ${name}`, () => {
    test("an id can be claimed once, on any replica and after a restart", async (t) => {
      const { one, other, now, restart } = await open(t);
      const until = now() + minuteMs;
      assert.equal(await one.claims.claim("a", until), true);
      assert.equal(await one.claims.claim("a", until), false);
      assert.equal(await other.claims.claim("a", until + minuteMs), false);
      assert.equal(await other.claims.claim("b", until), true);
      const restarted = await restart();
      assert.equal(await restarted.claims.claim("a", until), false);
      assert.equal(await restarted.claims.claim("b", until), false);
    });

    test("of claims that race, one is the first", async (t) => {
      const { one, other, now } = await open(t);
      const until = now() + minuteMs;
      for (let id = 0; id < 20; id++) {
        const answers = await Promise.all(
          [one, other, one, other].map(async ({ claims }) => claims.claim(String(id), until)),
        );
        assert.equal(answers.filter((isFirst) => isFirst).length, 1);
      }
    });

    test("a claim lasts at least until its end", async (t) => {
      const { one, other, now, pass } = await open(t);
      await one.claims.claim("a", now() + minuteMs);
      await pass(minuteMs - 1);
      assert.equal(await other.claims.claim("a", now() + minuteMs), false);
    });

    test("an ending is known at once where it happened, and to the others within a second", async (t) => {
      const { one, other, now, pass } = await open(t);
      const until = now() + minuteMs;
      assert.equal(one.endings.has("session a"), false);
      await one.endings.end("session a", until);
      assert.equal(one.endings.has("session a"), true);
      await pass(followMs);
      assert.equal(other.endings.has("session a"), true);
      assert.equal(other.endings.has("session b"), false);
    });

    test("an end that is repeated on any replica is no error", async (t) => {
      const { one, other, now } = await open(t);
      const until = now() + minuteMs;
      await Promise.all([one, other, one].map(async ({ endings }) => endings.end("a", until)));
      assert.equal(one.endings.has("a"), true);
    });

    test("an ending lasts until its time, also after a restart", async (t) => {
      const { one, now, pass, restart } = await open(t);
      await one.endings.end("a", now() + minuteMs);
      await pass(minuteMs - 1);
      assert.equal((await restart()).endings.has("a"), true);
    });
  });
}
