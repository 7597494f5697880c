/** When a worker's enclave is offered, and the gateway's cache of its evidence. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { workerSubprotocol } from "../../../../plugins/confidential/protocol/hello.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { EvidenceCache } from "../../../../plugins/confidential/confidential-relay/evidence-cache.ts";
import { evidenceDigest } from "../../../../plugins/confidential/protocol/report-data.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { model, type Script } from "./enclave-worker.ts";
import { greet, openWire } from "./stream-client.ts";
import { startStreamGateway, type StreamGateway } from "./stream-gateway.ts";

/** A platform that makes evidence without a nonce, but fails for quotes that bind a nonce. */
const noQuotes: Script = {
  answer: ({ freshness }) =>
    freshness === "quote"
      ? '{"type":"error","error":"","code":"ATTESTATION_UNAVAILABLE"}'
      : undefined,
};

async function listed(stream: StreamGateway): Promise<Readonly<Record<string, unknown>>> {
  const answer = await stream.get("/v1/models", stream.gateway.key);
  // The answer of the surface itself.
  const { data } = (await answer.json()) as { data: readonly Readonly<Record<string, unknown>>[] };
  return data[0] ?? {};
}

function chat({ gateway }: StreamGateway): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Say hello" }] }),
  });
}

describe("a worker's enclave", () => {
  it("is offered only after it has shown a quote that was made for this gateway", async () => {
    await using stream = await startStreamGateway({
      prepare(worker) {
        worker.script = noQuotes;
      },
    });
    assert.equal((await listed(stream))["active_workers"], 0);
    stream.worker.script = {};
    while ((await listed(stream))["active_workers"] === 0) await new Promise(setImmediate);
    assert.equal((await listed(stream))["evidence"], "simulated");
    assert.equal((await chat(stream)).status, 200);
  });

  it("must show a new quote for each keyset before the gateway sends it a prompt", async () => {
    await using stream = await startStreamGateway();
    const { worker } = stream;
    const quotes = (): number => worker.hellos.filter((one) => one.freshness === "quote").length;
    assert.equal((await chat(stream)).status, 200);
    assert.equal(quotes(), 1);
    const renewed: Script = { keyset: (one) => ({ ...one, notAfter: one.notAfter - 1 }) };
    worker.script = renewed;
    assert.equal((await chat(stream)).status, 200);
    assert.equal(quotes(), 2);
    const asked = worker.requests.length;
    worker.script = { ...noQuotes, keyset: (one) => ({ ...one, notAfter: one.notAfter - 2 }) };
    assert.ok((await chat(stream)).status >= 500);
    assert.equal(worker.requests.length, asked);
  });

  it("may name evidence that only its client knows; the gateway then requests the evidence itself", async () => {
    const shown: object[] = [];
    await using stream = await startStreamGateway({
      prepare(worker) {
        worker.script = {
          evidence(evidence, { freshness }) {
            if (freshness === "quote") return evidence;
            return (shown[0] ??= evidence);
          },
        };
      },
    });
    const { worker } = stream;
    using direct = await openWire(worker.url, {}, [workerSubprotocol]);
    await greet(direct);
    await direct.nextText();
    const digest = await evidenceDigest(nodeSuite, shown[0]);
    assert.ok(digest !== undefined);
    using session = await stream.open({ evidence: "known", known: [digest] });
    assert.equal(session.attestation.evidence, undefined);
    assert.equal(session.attestation.evidenceDigest, digest);
    session.ask();
    assert.equal((await session.answer()).final["finish_reason"], "stop");
  });
});

describe("the evidence cache", () => {
  it("does not evict shared evidence of keysets for evidence of single sessions", async () => {
    const memory = new EvidenceCache();
    const shared = await memory.keep({ of: "a keyset" }, false);
    const single: string[] = [];
    const quote = "x".repeat(40_000);
    for (let at = 0; at < 200; at++) single.push((await memory.keep({ at, quote }, true)) ?? "");
    assert.deepEqual(memory.find(shared ?? ""), { of: "a keyset" });
    assert.deepEqual(memory.find(single.at(-1) ?? ""), { at: 199, quote });
    assert.equal(memory.find(single[0] ?? ""), undefined);
  });

  it("holds at most 32 MiB, however large the evidence of each keyset is", async () => {
    const memory = new EvidenceCache();
    const digests: string[] = [];
    const gpu = "x".repeat(250_000);
    for (let at = 0; at < 200; at++) digests.push((await memory.keep({ at, gpu }, false)) ?? "");
    const found = digests.filter((digest) => memory.find(digest) !== undefined);
    assert.deepEqual(found, digests.slice(-Math.floor((32 << 20) / 250_020)));
  });
});

describe("protection against hostile enclaves and clients", () => {
  it("accepts a session id only once, also in parallel and after its receipt is stored", async () => {
    await using stream = await startStreamGateway();
    stream.worker.script = { session: new Uint8Array(16).fill(9) };
    const again = async (): Promise<unknown[]> => {
      using wire = await stream.wire();
      await greet(wire);
      const { code } = await wire.nextText();
      return [code, await wire.closed];
    };
    const refused = ["ATTESTATION_UNAVAILABLE", 4495];
    {
      using session = await stream.open();
      assert.deepEqual(await again(), refused);
      session.ask();
      await session.answer();
      session.socket.close();
      await session.closed;
    }
    assert.deepEqual(await again(), refused);
    stream.worker.script = {};
    using another = await stream.open();
    another.ask();
    assert.equal((await another.answer()).done.rid, 1);
  });

  const own = { network: "classic", termination: "gateway" } as const;
  for (const [kind, options] of [
    ["by workers", {}],
    ["by the gateway's own enclave", own],
  ] as const) {
    it(`limits the rate of quotes for single sessions per workspace, if they are made ${kind}`, async () => {
      const clock = manualClock(Date.now());
      await using stream = await startStreamGateway({ clock, own: true });
      const ask = async (key: string): Promise<unknown> => {
        using wire = await stream.wire(key);
        await greet(wire, { ...options, freshness: "quote" });
        const { type, code = type } = await wire.nextText();
        return code;
      };
      const { key } = stream.gateway;
      for (let made = 0; made < 16; made++) assert.equal(await ask(key), "attestation");
      assert.equal(await ask(key), "RATE_LIMITED");
      const neighbour = await stream.gateway.issue({ plan: "enterprise" });
      assert.equal(await ask(neighbour.key), "attestation");
      using cached = await stream.open();
      assert.equal(cached.attestationJson["type"], "attestation");
      clock.advance(250);
      assert.equal(await ask(key), "attestation");
    });
  }

  it("makes missing reports and implausible token counts visible", async () => {
    await using stream = await startStreamGateway();
    const { worker, gateway } = stream;
    let ctr = 0;
    worker.script = { report: (one) => ({ ...one, ctr: (ctr += 3) }) };
    using session = await stream.open({ maxOutputTokens: 100_000 });
    session.ask();
    await session.answer();
    assert.equal(await stream.gauge("sluice_stream_reports_missing"), 0);
    worker.script = {
      ...worker.script,
      tokens: { prompt: 5, completion: 99_999, cached: 0, reasoning: 0 },
    };
    session.ask();
    await session.answer();
    assert.equal(await stream.gauge("sluice_stream_reports_missing"), 2);
    const alarms = gateway.lines.filter((line) => line.includes("more tokens than its answer"));
    assert.equal(alarms.length, 1);
  });
});
