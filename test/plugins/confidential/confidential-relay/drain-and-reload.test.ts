/** Sessions while the gateway stops, and while pipeline.yaml is reloaded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { OpenStream } from "./stream-client.ts";
import { openStream, openWire } from "./stream-client.ts";
import { pageOrigin, pipeline, startStreamGateway, tokenMilli } from "./stream-gateway.ts";
import { gate, until } from "./wait.ts";

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
    assert.equal(await stream.gauge("sluice_stream_sessions"), 2);
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
