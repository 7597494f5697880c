/** Each request of a session asks for the key and for credit, in stores that may answer after the session has ended. */
import assert from "node:assert/strict";
import { after, before, describe, it, type TestContext } from "node:test";
import type { Accounts, Caller, Metering } from "sluice-gateway/services";
import { model } from "./enclave-worker.ts";
import { unwrap } from "./stream-client.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";

describe("a store that answers later", () => {
  let stream: StreamGateway;
  let accounts: Accounts;
  let metering: Metering;
  before(async () => {
    stream = await startStreamGateway();
    accounts = stream.gateway.gateway.use("accounts") ?? assert.fail();
    metering = stream.gateway.gateway.use("metering") ?? assert.fail();
  });
  after(() => stream[Symbol.asyncDispose]());

  const hasEnded = () => until(async () => (await stream.gauge("sluice_stream_sessions")) === 0);
  const charges = async (): Promise<number> => (await stream.charges()).length;

  /** Makes the next checks of keys wait. The caller answers them, in any order. */
  function holdChecks(t: TestContext): ((caller?: Caller) => void)[] {
    const held: ((caller?: Caller) => void)[] = [];
    // The service is a plain object whose methods do not use `this`.
    // oxlint-disable-next-line typescript/unbound-method
    const atOnce = accounts.identifyAgain;
    t.mock.method(accounts, "identifyAgain", async (...args: Parameters<typeof atOnce>) => {
      const { promise, resolve } = Promise.withResolvers<Caller | undefined>();
      held.push((caller) => resolve(caller));
      return (await promise) ?? atOnce(...args);
    });
    return held;
  }

  it("delays the frames of a request until the key is checked; they arrive in their order", async (t) => {
    using session = await stream.open();
    const held = holdChecks(t);
    const charged = await charges();
    const request = { model, messages: [{ role: "user", content: "Say hello" }] };
    const bytes = Buffer.from(JSON.stringify(request));
    for (const piece of [bytes.subarray(0, 5), bytes.subarray(5, 9), bytes.subarray(9)]) {
      const isEnd = piece.length > 5;
      session.socket.send(unwrap(session.channel.seal("request", 1, piece, isEnd)));
    }
    await until(() => held.length === 1);
    held[0]?.();
    assert.equal((await session.answer()).done.usedCUMilli, 7 * tokenMilli);
    assert.equal(await charges(), charged + 1);
  });

  it("ends the session without a charge if the key cannot be checked", async (t) => {
    const charged = await charges();
    using session = await stream.open();
    const held = holdChecks(t);
    session.ask();
    await until(() => held.length === 1);
    held[0]?.({ kind: "unavailable" });
    assert.equal((await session.nextText())["code"], "UPSTREAM_FAILED");
    assert.equal(await session.closed, 1011);
    await hasEnded();
    assert.equal(await charges(), charged);
  });

  it("gets the credit back if the client has left in the meantime", async (t) => {
    const charged = await charges();
    const reserve = metering.reserve.bind(metering);
    const held: (() => void)[] = [];
    const taken: string[] = [];
    t.mock.method(metering, "reserve", async (...args: Parameters<typeof reserve>) => {
      await new Promise<void>((resolve) => void held.push(resolve));
      const result = await reserve(...args);
      taken.push(result.kind);
      return result;
    });
    {
      using session = await stream.open();
      session.ask();
      await until(() => held.length === 1);
    }
    await hasEnded();
    held[0]?.();
    await until(() => taken.length === 1);
    assert.deepEqual(taken, ["reserved"]);
    const { workspaceId } = stream.gateway;
    await until(async () => (await metering.workspaceUsage(workspaceId)).openMilliCu === 0);
    assert.equal(await charges(), charged);
  });
});
