/**
 * Measures the encrypted stream without a network: handshakes per second, and frames of 256 bytes per second with their
 * CPU time, beside the bare cipher and beside @noble/*.
 *
 *   node bench/micro/confidential.ts
 */
import { gcm } from "@noble/ciphers/aes.js";
import { createCipheriv, createDecipheriv } from "node:crypto";
import { performance } from "node:perf_hooks";
import { createWebChannel } from "../../plugins/confidential/client/web-channel.ts";
import { isFault } from "../../plugins/confidential/protocol/fault.ts";
import type { Fault } from "../../plugins/confidential/protocol/fault.ts";
import { createFrameWatch } from "../../plugins/confidential/protocol/frame-watch.ts";
import {
  answerHello,
  clientKeys,
  readAnswer,
} from "../../plugins/confidential/protocol/handshake.ts";
import { readHello } from "../../plugins/confidential/protocol/hello.ts";
import { nodeSuite } from "../../plugins/confidential/protocol/node-crypto.ts";
import { verifyUsageReport } from "../../plugins/confidential/protocol/verify-usage-report.ts";
import type { ReportExpectation } from "../../plugins/confidential/protocol/verify-usage-report.ts";
import { reportMessage, writeReport } from "../../plugins/confidential/protocol/usage-report.ts";
import { toHex } from "../../plugins/confidential/verify/binary-text.ts";
import { median } from "../load/table.ts";
import {
  expected,
  handshakeSigner,
  helloWith,
  keysetWith,
  now,
  openSession,
  reportSigner,
} from "../../test/plugins/confidential/protocol/session.ts";

/** Duration of one round. The first rounds compile the code. */
const roundMs = 250;
const rounds = 9;

function unwrap<Value extends object>(value: Value | Fault | undefined): Value {
  if (value === undefined || isFault(value)) throw new Error(JSON.stringify(value));
  return value;
}

/** Prints medians of all rounds: calls per second, and CPU time of this thread in microseconds per call. */
async function measured(
  name: string,
  calls: number,
  task: () => Promise<unknown> | unknown,
): Promise<void> {
  const perSecond: number[] = [];
  const cpu: number[] = [];
  for (let round = 0; round < rounds + 2; round++) {
    const before = process.threadCpuUsage();
    const start = performance.now();
    let done = 0;
    while (performance.now() - start < roundMs) {
      await task();
      done += calls;
    }
    const wall = performance.now() - start;
    const { user, system } = process.threadCpuUsage(before);
    if (round < 2) continue;
    perSecond.push((done * 1000) / wall);
    cpu.push((user + system) / done);
  }
  console.log(`| ${name} | ${median(perSecond).toFixed(0)} | ${median(cpu).toPrecision(3)} |`);
}

const keyset = keysetWith();
const session = new Uint8Array(16);
const ephemeral = await nodeSuite.createEphemeral();
const hello = helloWith({ epk: ephemeral.publicKey });

async function answer(): Promise<Awaited<ReturnType<typeof answerHello>>> {
  const enclave = { keyset, signer: handshakeSigner, session };
  return answerHello(nodeSuite, hello, unwrap(readHello(hello)), enclave);
}

const opened = await openSession({ pad: 0 });
const { keys, th } = opened.answer;
/** Bytes that make a frame of 256 bytes with prefix, header and tag. */
const data = new Uint8Array(256 - 36).fill(0x61);
const burst = 2000;

function response(): readonly Uint8Array[] {
  const { enclave, client } = opened.ends();
  unwrap(enclave.open(unwrap(client.seal("request", 1, data, true))));
  return Array.from({ length: burst }, () => unwrap(enclave.seal("chunk", 1, data)));
}

const request = unwrap(opened.ends().client.seal("request", 1, data, true));
const frames = response();

console.log("| | per second | CPU µs |");
await measured("handshake, the enclave's part", 1, answer);
const given = unwrap(await answer());
await measured("handshake, what a relay checks", 1, () =>
  readAnswer(nodeSuite, hello, given.core, given.sig, expected),
);
await measured("handshake, the client's part with a new key", 1, async () => {
  await nodeSuite.createEphemeral();
  const attested = unwrap(await readAnswer(nodeSuite, hello, given.core, given.sig, expected));
  return clientKeys(nodeSuite, ephemeral, attested);
});
await measured("frame sealed", burst, response);
await measured("frame opened", burst, () => {
  const { client } = opened.ends();
  unwrap(client.seal("request", 1, data, true));
  for (const frame of frames) unwrap(client.open(frame));
});
await measured("frame opened by WebCrypto", burst, async () => {
  const client = await createWebChannel({ keys, th, pad: 0, end: "client" });
  unwrap(await client.seal("request", 1, data, true));
  for (const frame of frames) unwrap(await client.open(Uint8Array.from(frame)));
});
await measured("frame relayed: rules and digest, no keys", burst, () => {
  const watch = createFrameWatch(nodeSuite.newHash);
  unwrap(watch.observe("c2s", request));
  for (const frame of frames) unwrap(watch.observe("s2c", frame));
});
const { key, iv } = keys.s2c;
const authenticated = new Uint8Array(48);
await measured("bare AES-256-GCM of node:crypto, seal", burst, () => {
  for (let at = 0; at < burst; at++) {
    const cipher = createCipheriv("aes-256-gcm", key, iv);
    cipher.setAAD(authenticated);
    cipher.update(data);
    cipher.final();
    cipher.getAuthTag();
  }
});
const sealed = createCipheriv("aes-256-gcm", key, iv).setAAD(authenticated);
const ciphertext = Buffer.concat([sealed.update(data), sealed.final()]);
const tag = sealed.getAuthTag();
await measured("bare AES-256-GCM of node:crypto, open", burst, () => {
  for (let at = 0; at < burst; at++) {
    const decipher = createDecipheriv("aes-256-gcm", key, iv, { authTagLength: 16 });
    decipher.setAAD(authenticated);
    decipher.setAuthTag(tag);
    decipher.update(ciphertext);
    decipher.final();
  }
});
await measured("bare AES-256-GCM of @noble/ciphers, seal", 100, () => {
  for (let at = 0; at < 100; at++) gcm(key, iv, authenticated).encrypt(data);
});

const report = unwrap(
  writeReport({
    coefficient: 1000,
    ctr: 1,
    finish: "stop",
    iat: now,
    keyset: opened.attested.keysetDigest,
    model: "demo",
    net: "confidential-alpha",
    reqDigest: "0".repeat(64),
    resDigest: "0".repeat(64),
    rid: 1,
    session: "VVVVVVVVVVVVVVVVVVVVVQ",
    th: toHex(th),
    tokens: { prompt: 9, completion: 5, cached: 0, reasoning: 0 },
  }),
);
const signed = { report, sig: await reportSigner.sign(reportMessage(report)) };
const zeros = "0".repeat(64);
const exchange = { rid: 1, reqDigest: zeros, resDigest: zeros, hasEnded: true };
const own: ReportExpectation = {
  evidence: "accepted",
  keysetDigest: opened.attested.keysetDigest,
  reportKey: reportSigner.publicKey,
  notAfter: now + 600,
  now,
  session: "VVVVVVVVVVVVVVVVVVVVVQ",
  th,
  exchange: { ...exchange, requestBytes: 256, responseBytes: 256 },
  net: "confidential-alpha",
  model: "demo",
  maxOutputTokens: 64,
  claimCounter: () => true,
};
if (!(await verifyUsageReport(nodeSuite, signed, own)).verified) throw new Error("not verified");
await measured("report verified", 1, () => verifyUsageReport(nodeSuite, signed, own));
