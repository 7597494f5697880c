import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { createWebChannel } from "../../../../plugins/confidential/client/web-channel.ts";
import type { WebChannel } from "../../../../plugins/confidential/client/web-channel.ts";
import { webSuite } from "../../../../plugins/confidential/client/web-crypto.ts";
import { requestPieces } from "../../../../plugins/confidential/protocol/channel.ts";
import type { Channel, ChannelOptions } from "../../../../plugins/confidential/protocol/channel.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import {
  answerHello,
  clientKeys,
  readAnswer,
} from "../../../../plugins/confidential/protocol/handshake.ts";
import { readHello } from "../../../../plugins/confidential/protocol/hello.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { verifyUsageReport } from "../../../../plugins/confidential/protocol/verify-usage-report.ts";
import {
  reportMessage,
  writeReport,
} from "../../../../plugins/confidential/protocol/usage-report.ts";
import { sessionReportData } from "../../../../plugins/confidential/protocol/report-data.ts";
import { toHex, type Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import * as noble from "./noble-stream.ts";
import type { NobleKeys } from "./noble-stream.ts";
import { handshakeSigner, helloWith, keysetWith, now, reportSigner, unwrap } from "./session.ts";

const suites = { "node:crypto": nodeSuite, WebCrypto: webSuite };
const key = fc.uint8Array({ minLength: 32, maxLength: 32 });
const owned = (bytes: Uint8Array): Bytes => Uint8Array.from(bytes);
const name = fc.string({ minLength: 1, maxLength: 40, unit: "grapheme" });

/** Frame types of the specification. */
const [typeRequest, typeChunk, typeFinal, typeCancel] = [1, 2, 3, 4] as const;

interface Exchange {
  readonly requestBytes: number;
  readonly chunks: readonly Uint8Array[];
  readonly isCancelled: boolean;
}

const exchanges = fc.array(
  fc.record<Exchange>({
    requestBytes: fc.oneof(fc.nat(2000), fc.integer({ min: 32_760, max: 70_000 })),
    chunks: fc.array(fc.uint8Array({ maxLength: 1100 }), { maxLength: 5 }),
    isCancelled: fc.boolean(),
  }),
  { minLength: 1, maxLength: 4 },
);

const sessions = fc.record({
  clientSecret: key,
  enclaveSecret: key,
  hs: key,
  ur: key,
  session: fc.uint8Array({ minLength: 16, maxLength: 16 }),
  nonce: key,
  network: name,
  model: name,
  pad: fc.constantFrom(0, 256, 1024),
  exchanges,
});

class NobleEnd {
  readonly request: Uint8Array[] = [];
  readonly response: Uint8Array[] = [];
  readonly #keys: NobleKeys;
  readonly #th: Uint8Array;
  readonly #pad: number;
  readonly #seq = { c2s: 0n, s2c: 0n };

  constructor(keys: NobleKeys, th: Uint8Array, pad: number) {
    this.#keys = keys;
    this.#th = th;
    this.#pad = pad;
  }

  seal(type: number, flags: number, rid: number, data: Uint8Array): Bytes {
    const direction = type === typeRequest || type === typeCancel ? "c2s" : "s2c";
    const head = { type, flags, rid, seq: this.#seq[direction]++ };
    const frame = noble.nobleSeal(this.#keys[direction], this.#th, head, data, this.#pad);
    this.#note(type, frame);
    return frame;
  }

  open(direction: "c2s" | "s2c", frame: Uint8Array, data: Uint8Array): void {
    const opened = noble.nobleOpen(this.#keys[direction], this.#th, frame);
    assert.deepEqual(Buffer.from(opened.data), Buffer.from(data));
    assert.equal(opened.frame.seq, this.#seq[direction]++);
    if (this.#pad > 0) assert.equal(opened.plaintextBytes % this.#pad, 0);
    this.#note(opened.frame.type, frame);
  }

  #note(type: number, frame: Uint8Array): void {
    if (type !== typeCancel) (type === typeRequest ? this.request : this.response).push(frame);
  }

  digests(): { reqDigest: string; resDigest: string } {
    const reqDigest = noble.nobleDigest("c2s", this.request.splice(0));
    return { reqDigest, resDigest: noble.nobleDigest("s2c", this.response.splice(0)) };
  }
}

type Ours = Channel | WebChannel;

async function askAsClient(ours: Ours, theirs: NobleEnd, rid: number, it: Exchange): Promise<void> {
  const pieces = requestPieces(new Uint8Array(it.requestBytes).fill(3));
  for (const [at, piece] of pieces.entries()) {
    const isEnd = at === pieces.length - 1;
    theirs.open("c2s", unwrap(await ours.seal("request", rid, piece, isEnd)), piece);
  }
  for (const chunk of it.chunks) {
    const opened = unwrap(await ours.open(theirs.seal(typeChunk, 0, rid, chunk)));
    assert.deepEqual(Buffer.from(opened.data), Buffer.from(chunk));
  }
  const nothing = new Uint8Array(0);
  if (it.isCancelled) theirs.open("c2s", unwrap(await ours.seal("cancel", rid, nothing)), nothing);
  const { header } = unwrap(await ours.open(theirs.seal(typeFinal, 1, rid, nothing)));
  assert.equal(header.isEnd, true);
}

async function answerAsEnclave(
  ours: Ours,
  theirs: NobleEnd,
  rid: number,
  it: Exchange,
): Promise<void> {
  const request = new Uint8Array(it.requestBytes).fill(3);
  const first = request.subarray(0, request.length >> 1);
  unwrap(await ours.open(theirs.seal(typeRequest, 0, rid, first)));
  const rest = request.subarray(first.length);
  const opened = unwrap(await ours.open(theirs.seal(typeRequest, 1, rid, rest)));
  assert.deepEqual(Buffer.from(opened.data), Buffer.from(rest));
  for (const chunk of it.chunks) {
    theirs.open("s2c", unwrap(await ours.seal("chunk", rid, chunk)), chunk);
  }
  if (it.isCancelled) unwrap(await ours.open(theirs.seal(typeCancel, 0, rid, new Uint8Array(0))));
  const end = new TextEncoder().encode('{"finish_reason":"stop"}');
  theirs.open("s2c", unwrap(await ours.seal("final", rid, end)), end);
}

async function createChannel(by: string, options: ChannelOptions): Promise<Ours> {
  return by === "WebCrypto" ? createWebChannel(options) : createNodeChannel(options);
}

describe("random sessions against a second implementation", () => {
  for (const [by, suite] of Object.entries(suites)) {
    test(`${by}: our client and the other enclave agree on every byte and on the report`, async () => {
      await fc.assert(
        fc.asyncProperty(sessions, async (given) => {
          const { network, model, session, nonce } = given;
          const { pad } = given;
          const keyset = Buffer.from(
            noble.nobleJcs({
              hs: noble.nobleBase64(noble.nobleSigningPublic(given.hs)),
              net: network,
              not_after: now + 3000,
              role: "worker",
              ur: noble.nobleBase64(noble.nobleSigningPublic(given.ur)),
              v: 1,
            }),
          );
          const ephemeral = await suite.createEphemeral();
          const epk = ephemeral.publicKey;
          const hello = helloWith({ network, model, pad, epk, nonce: owned(nonce) });
          const secrets = { ephemeral: given.enclaveSecret, hs: given.hs };
          const answer = noble.nobleAnswer(hello, epk, keyset, session, secrets);
          const expected = { net: network, role: "worker", now } as const;
          const [core, sig] = [owned(answer.core), owned(answer.sig)];
          const read = await readAnswer(suite, hello, core, sig, expected);
          if (given.hs.every((byte, at) => byte === given.ur[at])) return assert.ok(isFault(read));
          const attested = unwrap(read);
          const keys = unwrap(await clientKeys(suite, ephemeral, attested));
          assert.equal(toHex(attested.th), noble.nobleHex(answer.th2));
          assert.ok(answer.keys);
          assert.deepEqual(hexOf(keys), hexOf(answer.keys));
          const bound = await sessionReportData(suite, attested.keysetDigest, nonce, "worker");
          assert.equal(
            toHex(bound),
            noble.nobleHex(noble.nobleReportData(keyset, nonce, "worker")),
          );

          const ours = await createChannel(by, { end: "client", keys, th: attested.th, pad });
          const theirs = new NobleEnd(answer.keys, answer.th2, pad);
          for (const [at, exchange] of given.exchanges.entries()) {
            const rid = at + 1;
            await askAsClient(ours, theirs, rid, exchange);
            const digests = theirs.digests();
            const report = Buffer.from(
              noble.nobleJcs({
                coefficient: 1000,
                ctr: rid,
                finish: exchange.isCancelled ? "cancel" : "stop",
                iat: now,
                keyset: attested.keysetDigest,
                model,
                net: network,
                req_digest: digests.reqDigest,
                res_digest: digests.resDigest,
                rid,
                session: noble.nobleBase64(session),
                th: noble.nobleHex(answer.th2),
                tokens: { cached: 1, completion: 5, prompt: 9, reasoning: 2 },
                typ: "cstream-usage/1",
              }),
            );
            const signed = {
              report: owned(report),
              sig: noble.nobleSignReport(report, given.ur),
            };
            const verdict = await verifyUsageReport(suite, signed, {
              evidence: "accepted",
              keysetDigest: attested.keysetDigest,
              reportKey: attested.keyset.ur,
              notAfter: attested.keyset.notAfter,
              now,
              session: toBase64Url(attested.core.session),
              th: attested.th,
              exchange: ours.watch.take(rid),
              net: network,
              model,
              maxOutputTokens: 64,
              claimCounter: () => true,
            });
            assert.equal(verdict.verified, true, JSON.stringify(verdict));
          }
        }),
        { numRuns: 40 },
      );
    });

    test(`${by}: our enclave and the other client agree on every byte and on the report`, async () => {
      await fc.assert(
        fc.asyncProperty(sessions, async (given) => {
          const { network, model } = given;
          const { pad } = given;
          const epk = owned(noble.noblePublic(given.clientSecret));
          const hello = helloWith({ network, model, pad, epk, nonce: owned(given.nonce) });
          const keyset = keysetWith({ net: network });
          const session = owned(given.session);
          const enclave = { keyset, signer: handshakeSigner, session };
          const read = unwrap(readHello(hello));
          const answer = unwrap(await answerHello(suite, hello, read, enclave));
          const client = noble.nobleComplete(hello, answer.core, answer.sig, given.clientSecret);
          assert.ok(client);
          assert.equal(noble.nobleHex(client.th2), toHex(answer.th));
          assert.deepEqual(hexOf(client.keys), hexOf(answer.keys));

          const { keys, th } = answer;
          const ours = await createChannel(by, { end: "enclave", keys, th, pad });
          const theirs = new NobleEnd(client.keys, client.th2, pad);
          for (const [at, exchange] of given.exchanges.entries()) {
            const rid = at + 1;
            await answerAsEnclave(ours, theirs, rid, exchange);
            const watched = unwrap(ours.watch.take(rid));
            const { reqDigest, resDigest } = theirs.digests();
            assert.deepEqual(
              { reqDigest: watched.reqDigest, resDigest: watched.resDigest },
              { reqDigest, resDigest },
            );
            const report = unwrap(
              writeReport({
                coefficient: 1000,
                ctr: rid,
                finish: "stop",
                iat: now,
                keyset: `sha256:${"0".repeat(64)}`,
                model,
                net: network,
                reqDigest,
                resDigest,
                rid,
                session: toBase64Url(session),
                th: toHex(th),
                tokens: { cached: 0, completion: 5, prompt: 9, reasoning: 0 },
              }),
            );
            const sig = await reportSigner.sign(reportMessage(report));
            assert.ok(noble.nobleVerifyReport(report, sig, reportSigner.publicKey));
            assert.equal(
              noble.nobleJcs(JSON.parse(Buffer.from(report).toString())),
              Buffer.from(report).toString(),
            );
          }
        }),
        { numRuns: 40 },
      );
    });
  }
});

function hexOf({ c2s, s2c, exporter }: NobleKeys): readonly string[] {
  return [c2s.key, c2s.iv, s2c.key, s2c.iv, exporter].map(noble.nobleHex);
}
