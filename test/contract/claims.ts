/** Tests of every implementation of `host.claims`. Two gateways share the store. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable, Claims } from "sluice-gateway/plugin";

export interface OpenClaims {
  readonly one: Claims;
  readonly other: Claims;
  /** Time of the store, in milliseconds since 1970. */
  readonly now: () => number;
  /** Lets time pass for the store and both gateways, with their timers. */
  readonly pass: (ms: number) => Awaitable<void>;
  readonly restart: () => Awaitable<Claims>;
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
      assert.equal(await one.claim("a", until), true);
      assert.equal(await one.claim("a", until), false);
      assert.equal(await other.claim("a", until + minuteMs), false);
      assert.equal(await other.claim("b", until), true);
      const restarted = await restart();
      assert.equal(await restarted.claim("a", until), false);
      assert.equal(await restarted.claim("b", until), false);
    });

    test("if claims are made at the same time, one of them is the first", async (t) => {
      const { one, other, now } = await open(t);
      const until = now() + minuteMs;
      for (let id = 0; id < 20; id++) {
        const answers = await Promise.all(
          [one, other, one, other].map(async (claims) => claims.claim(String(id), until)),
        );
        assert.equal(answers.filter((isFirst) => isFirst).length, 1);
      }
    });

    test("a claim lasts at least until its end", async (t) => {
      const { one, other, now, pass } = await open(t);
      await one.claim("a", now() + minuteMs);
      await pass(minuteMs - 1);
      assert.equal(await other.claim("a", now() + minuteMs), false);
    });

    test("an id whose time has passed cannot be claimed, also if it was claimed and forgotten", async (t) => {
      const { one, other, now, pass } = await open(t);
      const until = now() + minuteMs;
      assert.equal(await one.claim("a", until), true);
      await pass(2 * minuteMs);
      assert.equal(await other.claim("a", until), false);
      assert.equal(await other.claim("b", until), false);
    });

    test("every replica knows the time of the store", async (t) => {
      const { one, other, now, pass } = await open(t);
      assert.deepEqual([one.now(), other.now()], [now(), now()]);
      await pass(minuteMs);
      assert.deepEqual([one.now(), other.now()], [now(), now()]);
    });

    test("an ending is known at once to its own gateway, and to the others within a second", async (t) => {
      const { one, other, now, pass } = await open(t);
      const until = now() + minuteMs;
      assert.equal(one.hasEnded("session a"), false);
      await one.end("session a", until);
      assert.equal(one.hasEnded("session a"), true);
      await pass(followMs);
      assert.equal(other.hasEnded("session a"), true);
      assert.equal(other.hasEnded("session b"), false);
    });

    test("an end that is repeated on any replica is not an error", async (t) => {
      const { one, other, now } = await open(t);
      const until = now() + minuteMs;
      await Promise.all([one, other, one].map(async (claims) => claims.end("a", until)));
      assert.equal(one.hasEnded("a"), true);
    });

    test("an ending is remembered until its time, also after a restart", async (t) => {
      const { one, now, pass, restart } = await open(t);
      await one.end("a", now() + minuteMs);
      await pass(minuteMs - 1);
      assert.equal((await restart()).hasEnded("a"), true);
    });
  });
}
