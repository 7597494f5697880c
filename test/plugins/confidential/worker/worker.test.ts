/** A worker, reached over its WebSocket and its status document. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as dial } from "node:net";
import type { ServerResponse } from "node:http";
import { describe, test, type TestContext } from "node:test";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { sessionReportData } from "../../../../plugins/confidential/protocol/report-data.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { connectWorker } from "../../../../plugins/confidential/enclave-workers/socket.ts";
import { readStatus } from "../../../../plugins/inference/networks/status-document.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { ending, prepare } from "../enclave/client.ts";
import { unwrap } from "../protocol/session.ts";
import {
  chunk,
  connectTo,
  demoModelId,
  params,
  startScriptedModel,
  startTestWorker,
  statusOf,
} from "./fixture.ts";
import { openSocket } from "./socket.ts";
import { silentLog } from "../../../test-log.ts";

/** A client whose request is at a model that has sent one word and then stops; `begun`: the response of that model. */
async function askedOfHeldModel(t: TestContext) {
  const { promise: begun, resolve: begin } = Promise.withResolvers<ServerResponse>();
  const upstream = await startScriptedModel(t, (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(chunk({ content: "The" }));
    begin(response);
  });
  const worker = await startTestWorker(t, { upstream });
  const { wire, client } = await connectTo(t, worker.url);
  for (const frame of client.request(1, params)) wire.binary(frame);
  return { worker, begun, wire, client };
}

describe("a worker", () => {
  test("answers with its model, valid evidence and a signed report", async (t) => {
    const worker = await startTestWorker(t);
    const { client } = await connectTo(t, worker.url);
    const { keysetDigest } = client.attested;
    const verdict = await verifyEvidence(
      client.attestation.evidence,
      { reportData: await sessionReportData(nodeSuite, keysetDigest, undefined, "worker") },
      {
        imageHashes: [worker.imageHash],
        allowSimulated: true,
        simulatedRoots: [worker.simulatedRoot ?? ""],
      },
      Date.now(),
    );
    assert.equal(verdict.assurance, "simulated");
    const { text, final, report, deltas } = await client.ask(params);
    assert.equal(text, params.messages[0]?.content);
    assert.equal(final.finish_reason, "stop");
    assert.deepEqual(report.tokens, { prompt: 10, completion: 10, cached: 0, reasoning: 0 });
    assert.equal(report.coefficient, 1200);
    assert.ok(deltas.length < 10, "tokens come in batches");
    const limited = await client.ask({ ...params, max_tokens: 4 });
    assert.equal(limited.text, "one two three four");
    assert.equal(limited.report.finish, "length");
    assert.equal(limited.report.ctr, 2);
  });

  test("cancels the request at its model when the client cancels", async (t) => {
    const { begun, wire, client } = await askedOfHeldModel(t);
    assert.deepEqual(await client.chunk(), { content: "The" });
    const response = await begun;
    const left = once(response, "close");
    wire.binary(unwrap(client.channel.seal("cancel", 1, new Uint8Array())));
    const { final, report } = await client.answer(1);
    assert.equal(final.finish_reason, "cancel");
    assert.equal(report.finish, "cancel");
    assert.equal(report.tokens.completion, 1);
    await left;
  });

  test("reports a failure of the model without the model's text", async (t) => {
    const upstream = await startScriptedModel(t, (_, response) => {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "internal path /srv/model" } }));
    });
    const worker = await startTestWorker(t, { upstream });
    const { client } = await connectTo(t, worker.url);
    const { final, report } = await client.ask(params);
    assert.equal(final.error?.code, "INVALID_REQUEST");
    assert.doesNotMatch(JSON.stringify(final), /srv/);
    assert.equal(report.finish, "error");
    assert.doesNotMatch(worker.lines.join("\n"), /srv|seven/);
  });

  test("sends the API key to the model server, and allows only the listed models", async (t) => {
    const { promise: sent, resolve } = Promise.withResolvers<string | undefined>();
    const upstream = await startScriptedModel(t, (request, response) => {
      resolve(request.headers.authorization);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`${chunk({ content: "x" }, "stop")}data: [DONE]\n\n`);
    });
    const worker = await startTestWorker(t, { upstream, apiKey: "model-key" });
    const { client } = await connectTo(t, worker.url);
    assert.equal((await client.ask(params)).text, "x");
    assert.equal(await sent, "Bearer model-key");
    const other = await startTestWorker(t, { upstream, models: ["Demo/Other"] });
    for (const model of [demoModelId, "Demo/Other"]) {
      const wire = await openSocket(t, other.url);
      wire.text((await prepare({ model })).bytes);
      assert.deepEqual(await ending(wire), { code: 4404, error: "MODEL_NOT_AVAILABLE" });
    }
    assert.deepEqual((await statusOf(other)).workers, []);
  });
});

describe("a worker ends the connection or refuses it for", () => {
  test("a message of more than 1 MiB", async (t) => {
    const worker = await startTestWorker(t);
    const { wire } = await connectTo(t, worker.url);
    wire.binary(new Uint8Array(1_048_577));
    assert.equal((await ending(wire)).code, 1009);
    const { wire: text } = await connectTo(t, worker.url);
    text.binary(new Uint8Array(1_048_576));
    assert.deepEqual(await ending(text), { code: 4413, error: "LIMIT_EXCEEDED" });
  });

  test("a client with a wrong token, path or subprotocol", async (t) => {
    const worker = await startTestWorker(t, { token: "worker-token" });
    const { url } = worker;
    for (const options of [{}, { token: "wrong" }, { token: "worker-tokens" }, { token: "" }]) {
      await assert.rejects(openSocket(t, url, options), /401/);
    }
    const token = "worker-token";
    await assert.rejects(openSocket(t, url, { token, protocols: ["confidential.v1"] }), /400/);
    await assert.rejects(openSocket(t, url, { token, protocols: [] }), /400/);
    await assert.rejects(openSocket(t, url.replace("/cstream/1", "/cstream/2"), { token }), /404/);
    // A page in a browser on the same machine.
    const origin = "http://127.0.0.1:3000";
    await assert.rejects(openSocket(t, url, { token, origin }), /403/);
    const { client, wire } = await connectTo(t, url, { token });
    assert.equal(wire.webSocket.protocol, "cstream.worker.v1");
    assert.equal(wire.webSocket.extensions, "");
    assert.equal((await client.ask(params)).final.finish_reason, "stop");
  });
});

describe("a worker's status", () => {
  test("is a public status document of a network", async (t) => {
    const worker = await startTestWorker(t, { token: "worker-token" });
    const status = await statusOf(worker);
    assert.deepEqual(readStatus(status, ["ws:"])?.workers, [
      {
        id: status.workers[0]?.["id"],
        model: demoModelId,
        coefficient: 1200,
        state: "active",
        url: worker.url,
      },
    ]);
    assert.equal(status.evidence, "simulated");
    assert.equal(status.image_hash, worker.imageHash);
    const base = new URL(worker.statusUrl).origin;
    assert.deepEqual(await (await fetch(`${base}/healthz`)).json(), { status: "ok" });
    assert.equal((await fetch(`${base}/status`, { method: "HEAD" })).status, 200);
    assert.equal((await fetch(`${base}/status?x=1`)).status, 200);
    const posted = await fetch(`${base}/status`, { method: "POST" });
    assert.equal(posted.status, 405);
    assert.equal(posted.headers.get("allow"), "GET, HEAD");
    for (const path of ["/", "/metrics", "/cstream/1", "/v1/models"]) {
      assert.equal((await fetch(base + path)).status, 404, path);
    }
  });

  test("contains the advertised address, and no address if the worker listens on a wildcard", async (t) => {
    const advertise = "wss://worker.example.org/cstream/1";
    const named = await startTestWorker(t, { advertise });
    assert.equal((await statusOf(named)).workers[0]?.["url"], advertise);
    const everywhere = await startTestWorker(t, { host: "0.0.0.0" });
    const status = await statusOf(everywhere);
    assert.equal(status.workers.length, 1);
    assert.equal("url" in (status.workers[0] ?? {}), false);
  });

  test("is busy while the model answers, and draining after the worker is stopped", async (t) => {
    const { worker, begun, wire, client } = await askedOfHeldModel(t);
    const stateOf = async (): Promise<unknown> => (await statusOf(worker)).workers[0]?.["state"];
    const idle = await connectTo(t, worker.url);
    const response = await begun;
    assert.equal(await stateOf(), "busy");
    const stopped = worker.stop(60_000);
    assert.equal(await stateOf(), "draining");
    await assert.rejects(openSocket(t, worker.url), /503/);
    assert.deepEqual(await ending(idle.wire), { code: 1000, error: undefined });
    response.end(`${chunk({ content: " end" }, "stop")}data: [DONE]\n\n`);
    assert.equal((await client.answer(1)).text, "The end");
    assert.deepEqual(await wire.next(), { kind: "closed", code: 1000, error: undefined });
    await stopped;
    await assert.rejects(fetch(worker.statusUrl));
  });
});

test("a session that does not end in time is terminated", async (t) => {
  const { worker, wire, client } = await askedOfHeldModel(t);
  await client.chunk();
  await worker.stop(1);
  assert.equal((await ending(wire)).code, 1006);
});

describe("a gateway whose client does not read", () => {
  test("is not disconnected as unresponsive", async (t) => {
    const clock = manualClock(Date.now());
    const worker = await startTestWorker(t, { clock });
    const link = await connectWorker({
      url: worker.url,
      headers: {},
      connectMs: 1_000,
      clock,
      log: silentLog,
    });
    assert.ok(link !== undefined);
    let hasEnded = false;
    const { promise: answered, resolve: answer } = Promise.withResolvers<Buffer>();
    link.listener = {
      onText: answer,
      onBinary: () => {},
      onDrain: () => {},
      onEnd: () => {
        hasEnded = true;
      },
    };
    link.text((await prepare()).bytes);
    await answered;
    link.pause();
    for (let waited = 0; waited < 100_000; waited += 5_000) {
      clock.advance(5_000);
      // The status request takes the same way, so the sent bytes have arrived after it.
      await statusOf(worker);
    }
    link.resume();
    await statusOf(worker);
    link.close();
    assert.equal(hasEnded, false);
  });

  test("differs from an unresponsive one, which is disconnected at the third ping", async (t) => {
    const clock = manualClock(Date.now());
    const worker = await startTestWorker(t, { clock });
    const wire = await openSocket(t, worker.url, { autoPong: false });
    wire.text((await prepare()).bytes);
    assert.equal((await wire.next()).kind, "text");
    const { webSocket } = wire;
    const gone = once(webSocket, "close");
    for (const _ of [1, 2]) {
      const asked = once(webSocket, "ping");
      clock.advance(20_000);
      await asked;
    }
    clock.advance(20_000);
    assert.equal((await gone)[0], 1006);
  });
});

describe("a client that does not read", () => {
  test("makes the model wait: no more is buffered than the connection holds", async (t) => {
    const whole = 64 * 1024 * 1024;
    const piece = chunk({ content: "y".repeat(16_000) });
    let written = 0;
    const { promise: gone, resolve: leave } = Promise.withResolvers<void>();
    const upstream = await startScriptedModel(t, (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const write = (): void => {
        while (written < whole) {
          written += piece.length;
          if (!response.write(piece)) return;
        }
      };
      response.on("drain", write);
      response.on("close", leave);
      write();
    });
    const worker = await startTestWorker(t, { upstream });
    // Enough tokens that the answer is not ended because of its length.
    const hello = { maxOutputTokens: 10_000_000 };
    const { wire, client } = await connectTo(t, worker.url, { hello });
    for (const frame of client.request(1, params)) wire.binary(frame);
    await client.chunk();
    wire.webSocket.pause();
    // Waits until no more bytes are written, however slow the machine is.
    for (let still = 0, seen = 0; still < 3_000; still = seen === written ? still + 1 : 0) {
      seen = written;
      await new Promise(setImmediate);
    }
    assert.ok(written < whole / 2, `${written} bytes were taken from the model`);
    wire.webSocket.terminate();
    await gone;
  });
});

describe("stopping a worker", () => {
  for (const offered of ["cstream.worker.v1, cstream.worker.v1", "other,,"]) {
    test(`does not wait for a refused client that keeps its side open: "${offered}"`, async (t) => {
      const worker = await startTestWorker(t);
      const { hostname, port } = new URL(worker.url);
      const socket = dial({ host: hostname, port: Number(port), allowHalfOpen: true });
      t.after(() => socket.destroy());
      socket.on("error", () => {});
      socket.write(
        [
          "GET /cstream/1 HTTP/1.1",
          "Host: h",
          "Connection: Upgrade",
          "Upgrade: websocket",
          "Sec-WebSocket-Version: 13",
          "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
          `Sec-WebSocket-Protocol: ${offered}`,
          "",
          "",
        ].join("\r\n"),
      );
      const [answer] = (await once(socket, "data")) as [Buffer];
      assert.match(answer.toString(), /^HTTP\/1\.1 400 /);
      await worker.stop(60_000);
    });
  }
});
