/** Credit for a request of a session may have to be asked for, and the answer may come after the session has ended. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import type { Metering } from "sluice-gateway/services";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";

describe("credit that must be asked for", () => {
  let stream: StreamGateway;
  let metering: Metering;
  let atOnce: Metering["reserve"];
  before(async () => {
    stream = await startStreamGateway();
    const running = stream.gateway.gateway.use("metering");
    assert.ok(running !== undefined);
    metering = running;
    atOnce = running.reserve.bind(running);
  });
  after(() => stream[Symbol.asyncDispose]());
  afterEach(() => {
    metering.reserve = atOnce;
  });

  /** Makes the next reservations wait. Each function of `held` lets one of them continue. */
  function holdReservations(): { held: (() => void)[]; taken: string[] } {
    const held: (() => void)[] = [];
    const taken: string[] = [];
    metering.reserve = async (...args) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      held.push(resolve);
      await promise;
      const result = await atOnce(...args);
      taken.push(result.kind);
      return result;
    };
    return { held, taken };
  }

  async function metric(name: string): Promise<number> {
    const text = await (await fetch(`${stream.gateway.adminUrl}/metrics`)).text();
    return Number(new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1]);
  }

  it("delays the request, which is then answered and charged", async () => {
    using session = await stream.open();
    const { held } = holdReservations();
    session.ask();
    await until(() => held.length === 1);
    held[0]?.();
    const { done } = await session.answer();
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
  });

  it("is given back if the client has left in the meantime", async () => {
    const charged = (await stream.charges()).length;
    const { held, taken } = holdReservations();
    {
      using session = await stream.open();
      session.ask();
      await until(() => held.length === 1);
    }
    await until(async () => (await metric("sluice_stream_sessions")) === 0);
    held[0]?.();
    await until(() => taken.length === 1);
    assert.deepEqual(taken, ["reserved"]);
    await until(
      async () => (await metering.workspaceUsage(stream.gateway.workspaceId)).openMilliCu === 0,
    );
    assert.equal((await stream.charges()).length, charged);
  });
});
