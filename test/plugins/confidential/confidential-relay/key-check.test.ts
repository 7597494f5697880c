/** Each request of a session checks the key again, in a store that may answer later. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import type { Accounts, Caller } from "sluice-gateway/services";
import { model } from "./enclave-worker.ts";
import { unwrap } from "./stream-client.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";

describe("a store of keys that answers later", () => {
  let stream: StreamGateway;
  let accounts: Accounts;
  let atOnce: Accounts["identifyAgain"];
  before(async () => {
    stream = await startStreamGateway();
    const running = stream.gateway.gateway.use("accounts");
    assert.ok(running !== undefined);
    accounts = running;
    // The service is a plain object whose methods do not use \`this\`.
    // oxlint-disable-next-line typescript/unbound-method
    atOnce = running.identifyAgain;
  });
  after(() => stream[Symbol.asyncDispose]());
  afterEach(() => {
    accounts.identifyAgain = atOnce;
  });

  /** Makes the next checks wait. The caller answers them, in any order. */
  function holdChecks(): ((caller?: Caller) => void)[] {
    const held: ((caller?: Caller) => void)[] = [];
    accounts.identifyAgain = async (principal, address) => {
      const { promise, resolve } = Promise.withResolvers<Caller | undefined>();
      held.push((caller) => resolve(caller));
      return (await promise) ?? atOnce(principal, address);
    };
    return held;
  }

  async function sessions(): Promise<number> {
    const text = await (await fetch(`${stream.gateway.adminUrl}/metrics`)).text();
    return Number(/^sluice_stream_sessions (.+)$/m.exec(text)?.[1]);
  }

  it("delays the frames of a request, which arrive in their order", async () => {
    using session = await stream.open();
    const held = holdChecks();
    const charged = (await stream.charges()).length;
    const request = { model, messages: [{ role: "user", content: "Say hello" }] };
    const bytes = Buffer.from(JSON.stringify(request));
    for (const [at, end] of [
      [0, 5],
      [5, 9],
      [9, bytes.length],
    ] as const) {
      const isEnd = end === bytes.length;
      session.socket.send(
        unwrap(session.channel.seal("request", 1, bytes.subarray(at, end), isEnd)),
      );
    }
    await until(() => held.length === 1);
    held[0]?.();
    const { done } = await session.answer();
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
    assert.equal((await stream.charges()).length, charged + 1);
  });

  it("ends the session without a charge if it cannot be asked", async () => {
    const charged = (await stream.charges()).length;
    using session = await stream.open();
    const held = holdChecks();
    session.ask();
    await until(() => held.length === 1);
    held[0]?.({ kind: "unavailable" });
    assert.equal((await session.nextText())["code"], "UPSTREAM_FAILED");
    assert.equal(await session.closed, 1011);
    await until(async () => (await sessions()) === 0);
    assert.equal((await stream.charges()).length, charged);
  });

  it("does not hold up the end of a session whose client leaves", async () => {
    const charged = (await stream.charges()).length;
    const held = holdChecks();
    {
      using session = await stream.open();
      session.ask();
      await until(() => held.length === 1);
    }
    await until(async () => (await sessions()) === 0);
    held[0]?.();
    await new Promise(setImmediate);
    assert.equal((await stream.charges()).length, charged);
  });
});
