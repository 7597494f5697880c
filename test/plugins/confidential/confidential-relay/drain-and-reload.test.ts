/** Sessions while the gateway stops, and while pipeline.yaml is reloaded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { chunkOf, eventOf } from "../../inference/networks/chat-events.ts";
import type { Exchange } from "../../inference/networks/scripted-worker.ts";
import type { OpenStream } from "./stream-client.ts";
import { openStream, openWire } from "./stream-client.ts";
import { pageOrigin, pipeline, startStreamGateway, tokenMilli } from "./stream-gateway.ts";
import { gate, until } from "./wait.ts";

const own = { network: "classic", termination: "gateway" } as const;

/** The gate at which the unencrypted model waits. */
async function finish(held: Exchange): Promise<void> {
  await held.push(eventOf(chunkOf({ content: "Hello" })));
  await held.push(eventOf(chunkOf({}, { finishReason: "stop" })));
  await held.push(eventOf("[DONE]"));
  held.end();
}

describe("a gateway that stops", () => {
  it("closes idle sessions immediately, and busy ones when their request is answered and charged", async () => {
    await using stream = await startStreamGateway();
    const held = gate();
    using idle = await stream.open();
    using busy = await stream.open();
    stream.worker.script = { pace: held.pass };
    busy.ask();
    await until(() => stream.worker.requests.length > 0);
    const stopped = stream.gateway.gateway.stop();
    assert.equal(await idle.closed, 1013);
    held.open();
    const { deltas, done } = await busy.answer();
    assert.equal(deltas.length, 2);
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
    assert.equal(await busy.closed, 1013);
    await stopped;
    assert.deepEqual(
      (await stream.charges()).map(({ usedMilliCu }) => usedMilliCu),
      [7 * tokenMilli],
    );
  });

  it("accepts no further request in a session that is ending", async () => {
    await using stream = await startStreamGateway();
    const held = gate();
    using session = await stream.open();
    stream.worker.script = { pace: held.pass };
    session.ask();
    await until(() => stream.worker.requests.length > 0);
    const stopped = stream.gateway.gateway.stop();
    held.open();
    await session.answer();
    session.ask();
    assert.equal(await session.closed, 1013);
    await stopped;
    assert.equal(stream.worker.requests.length, 1);
  });

  it("does the same for sessions in its own enclave", async () => {
    await using stream = await startStreamGateway({ own: true });
    using idle = await stream.open(own);
    using busy = await stream.open(own);
    const holding = stream.plain.hold();
    busy.ask();
    const held = await holding;
    held.begin();
    const stopped = stream.gateway.gateway.stop();
    assert.equal(await idle.closed, 1013);
    await finish(held);
    const { final, done } = await busy.answer();
    assert.equal(final["finish_reason"], "stop");
    assert.equal(done.usage.unverified_reason, "simulated");
    assert.equal(await busy.closed, 1013);
    await stopped;
  });

  it("closes a session whose handshake has not begun", async () => {
    await using stream = await startStreamGateway();
    using wire = await stream.wire();
    const stopped = stream.gateway.gateway.stop();
    assert.equal(await wire.closed, 1013);
    await stopped;
  });
});

describe("a reload of pipeline.yaml", () => {
  const elsewhere = "https://elsewhere.example";
  const changed = pipeline.replace("${ORIGIN}", elsewhere);

  async function answered(session: OpenStream): Promise<void> {
    session.ask();
    assert.equal((await session.answer()).final["finish_reason"], "stop");
  }

  it("drops no request and no session, and applies to new sessions", async () => {
    await using stream = await startStreamGateway();
    const { gateway, worker, url } = stream;
    const held = gate();
    using session = await stream.open();
    worker.script = { pace: held.pass };
    session.ask();
    await until(() => worker.requests.length > 0);
    await gateway.write(changed);
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    held.open();
    assert.equal((await session.answer()).deltas.length, 2);
    await answered(session);

    const headers = { authorization: `Bearer ${gateway.key}` };
    await assert.rejects(openWire(url, { headers, origin: pageOrigin }), /403/);
    using next = await openStream(await openWire(url, { headers, origin: elsewhere }));
    await answered(next);
    assert.equal((await stream.charges()).length, 3);
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    assert.match(metrics, /^sluice_stream_sessions 2$/m);
  });

  it("also keeps sessions in the gateway's own enclave running", async () => {
    await using stream = await startStreamGateway({ own: true });
    const { gateway, plain } = stream;
    using session = await stream.open(own);
    const holding = plain.hold();
    session.ask();
    const held = await holding;
    held.begin();
    await gateway.write(changed);
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    await finish(held);
    const { done } = await session.answer();
    assert.equal(done.usage.unverified_reason, "simulated");
    await answered(session);
    using next = await stream.open(own);
    await answered(next);
    assert.equal((await stream.charges()).length, 3);
  });

  it("that removes the network lets its sessions finish and refuses new ones", async () => {
    await using stream = await startStreamGateway();
    const { gateway, worker } = stream;
    using session = await stream.open();
    await gateway.write(pipeline.replace(/^ {2}alpha: .*\n/m, ""));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    await answered(session);
    await assert.rejects(stream.open(), /NETWORK_NOT_AVAILABLE/);
    assert.equal(worker.requests.length, 1);
  });
});
