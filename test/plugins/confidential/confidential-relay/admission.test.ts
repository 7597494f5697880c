/** When a worker's enclave is offered, the gateway's cache of its evidence, its policy document, and credit for retries. */
import assert from "node:assert/strict";
import { describe, it, test, type TestContext } from "node:test";
import { workerSubprotocol } from "../../../../plugins/confidential/protocol/hello.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { EvidenceCache } from "../../../../plugins/confidential/confidential-relay/evidence-cache.ts";
import { evidenceDigest } from "../../../../plugins/confidential/protocol/report-data.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { model, type Script } from "./enclave-worker.ts";
import { greet, openWire } from "./stream-client.ts";
import { startStreamGateway, type StreamGateway } from "./stream-gateway.ts";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { policyOf } from "../../../../plugins/confidential/enclave-workers/policy.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { readPolicyDocument } from "../../../../plugins/confidential/protocol/policy-document.ts";
import {
  creditMilliCu,
  MemoryRetryCredits,
} from "../../../../plugins/confidential/confidential-relay/retry-credits.ts";
import type { StreamAttempt } from "../../../../plugins/confidential/confidential-relay/stream-store.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";

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

const hourMs = 3_600_000;

const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
secret: a secret of these gateways
networks:
  alpha:
    kind: enclave
    url: http://127.0.0.1:9
    evidence:
      kind: hardware
      image_hashes: [${"a".repeat(64)}]
      sev_snp: { min_tcb: { Genoa: { snp: 27 } }, require_crl: true }
routes:
  - { path: /policy, run: [], to: { confidential: { do: policy } } }
`;

async function start(t: TestContext, at: number) {
  const clock = manualClock(at);
  const gateway = await startTestGateway({ pipeline, clock });
  t.after(() => gateway[Symbol.asyncDispose]());
  const read = async () => {
    const document = await (await fetch(`${gateway.url}/policy`)).json();
    // The shape of a signed document.
    const { key: text } = document as { key: string };
    const key = fromBase64Url(text);
    assert.ok(key !== undefined);
    const content = await readPolicyDocument(nodeSuite, document, { key, now: clock.now() });
    assert.ok(typeof content !== "string", JSON.stringify(content));
    return { key: text, ...content };
  };
  return { clock, read };
}

test("replicas that started at different times serve the same serial, which increases every hour", async (t) => {
  const begun = Date.UTC(2026, 10, 21, 8);
  const first = await start(t, begun + 1_000);
  const last = await start(t, begun + hourMs - 500);
  for (const { read } of [first, last]) assert.equal((await read()).serial, begun / 1000);
  last.clock.advance(500);
  assert.equal((await last.read()).serial, (begun + hourMs) / 1000);
});

test("the document repeats what pipeline.yaml requires of SEV-SNP evidence, and its key never changes, because clients have pinned it", async (t) => {
  const { read } = await start(t, Date.UTC(2026, 10, 21, 8));
  const { key, networks } = await read();
  assert.equal(networks["alpha"]?.termination, "worker");
  assert.deepEqual(networks["alpha"].worker?.sev_snp, {
    min_tcb: { Genoa: { snp: 27 } },
    require_crl: true,
  });
  assert.equal(key, "AMKUrLYEVXgsJsTWqz9kWzOluAMquEhvzp_S35DyS-M");
});

test("the gateway itself verifies under the same conditions as the clients of its document", () => {
  const evidence = { imageHashes: ["a".repeat(64)], sevSnp: { requireCrl: true } };
  assert.deepEqual(policyOf(evidence)(undefined), evidence);
});

const hello = { idempotencyKey: "once", network: "alpha", model: "M", maxOutputTokens: 100 };
const attempt: StreamAttempt = { keyId: "key_1", hello, requestBytes: 288 };

test("the part of an answer that was sent is not credited, and the credit is rounded down", () => {
  assert.equal(creditMilliCu(300, { sent: 0, all: 0 }), 300);
  assert.equal(creditMilliCu(300, { sent: 0, all: 1_000 }), 300);
  assert.equal(creditMilliCu(300, { sent: 1_000, all: 1_000 }), 0);
  assert.equal(creditMilliCu(300, { sent: 999, all: 1_000 }), 0);
  assert.equal(creditMilliCu(7, { sent: 1, all: 2 }), 3);
  const much = Number.MAX_SAFE_INTEGER;
  assert.equal(creditMilliCu(much, { sent: 2 ** 31, all: 2 ** 32 }), (much - 1) / 2);
});

test("a key has at most 64 credits in memory, for one hour, and does not evict those of other keys", () => {
  const clock = manualClock();
  const credits = new MemoryRetryCredits(clock, createMetrics());
  const other = { ...attempt, keyId: "key_2" };
  credits.add(other, 20);
  const numbered = (index: number): StreamAttempt => ({
    ...attempt,
    hello: { ...hello, idempotencyKey: `once-${index}` },
  });
  for (let index = 0; index < 20_000; index++) credits.add(numbered(index), 20);
  assert.equal(credits.take(numbered(19_935), 20), 0);
  assert.equal(credits.take(numbered(19_936), 20), 20);
  assert.equal(credits.take(numbered(19_999), 20), 20);
  assert.equal(credits.take(other, 5), 5);
  clock.advance(3_600_000);
  assert.equal(credits.take(other, 20), 0);
});
