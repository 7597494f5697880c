/** A client of the encrypted stream, built from the protocol's code and independent of the transport. */
import assert from "node:assert/strict";
import { requestPieces, type Channel } from "../../../../plugins/confidential/protocol/channel.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import type { WatchedExchange } from "../../../../plugins/confidential/protocol/frame-watch.ts";
import {
  clientKeys,
  readAnswer,
  type Attested,
} from "../../../../plugins/confidential/protocol/handshake.ts";
import { writeHello, type Hello } from "../../../../plugins/confidential/protocol/hello.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import {
  readReport,
  reportMessage,
  type UsageReport,
} from "../../../../plugins/confidential/protocol/usage-report.ts";
import {
  readTextFrame,
  type AttestationFrame,
  type ReportFrame,
} from "../../../../plugins/confidential/protocol/text-frames.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { unwrap, textOf } from "../protocol/session.ts";

export const net = "confidential-alpha";

export type Event =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "binary"; readonly frame: Uint8Array }
  | { readonly kind: "closed"; readonly code: number; readonly error: string | undefined };

export interface Wire {
  text(bytes: Uint8Array): void;
  binary(frame: Uint8Array): void;
  next(): Promise<Event>;
}

export interface Final {
  readonly finish_reason: string;
  readonly usage: { readonly total_tokens: number; readonly completion_tokens: number };
  readonly error?: { readonly code: string; readonly message: string };
}

export interface Answered {
  readonly deltas: readonly Readonly<Record<string, unknown>>[];
  readonly text: string;
  readonly final: Final;
  readonly report: UsageReport;
}

export interface TestClient {
  readonly attested: Attested;
  readonly attestation: AttestationFrame;
  readonly channel: Channel;
  /** Returns the frames of a request; `params` is JSON, or bytes that are sent unchanged. */
  request(rid: number, params: object | Uint8Array): readonly Uint8Array[];
  ask(params: object | Uint8Array): Promise<Answered>;
  answer(rid: number): Promise<Answered>;
  chunk(): Promise<Readonly<Record<string, unknown>>>;
}

export interface ClientOptions {
  readonly hello?: Partial<Hello>;
  /** Seconds since 1970. */
  readonly now: number;
}

/** `hello` for a session with `net`, and the key that it names. */
export async function prepare(
  members: Partial<Hello> = {},
): Promise<{ readonly bytes: Bytes; readonly hello: Hello; readonly keys: Prepared }> {
  const ephemeral = await nodeSuite.createEphemeral();
  const hello: Hello = {
    network: net,
    model: "Demo/Echo-1",
    maxOutputTokens: 64,
    maxCoefficient: undefined,
    termination: "worker",
    epk: ephemeral.publicKey,
    nonce: new Uint8Array(32).fill(5),
    pad: 256,
    evidence: "full",
    known: [],
    freshness: "cached",
    idempotencyKey: undefined,
    ...members,
  };
  return { bytes: writeHello(hello), hello, keys: ephemeral };
}

type Prepared = Awaited<ReturnType<typeof nodeSuite.createEphemeral>>;

/** Completes a handshake with the enclave's answer. `now`: seconds since 1970. */
export async function secure(
  { bytes, hello, keys }: Awaited<ReturnType<typeof prepare>>,
  { core, sig }: AttestationFrame,
  now: number,
): Promise<{ readonly attested: Attested; readonly channel: Channel }> {
  const expected = { net: hello.network, role: hello.termination, now };
  const attested = unwrap(await readAnswer(nodeSuite, bytes, core, sig, expected));
  const secrets = unwrap(await clientKeys(nodeSuite, keys, attested));
  const { th } = attested;
  const channel = createNodeChannel({ end: "client", keys: secrets, th, pad: hello.pad });
  return { attested, channel };
}

/** Completes the handshake over `wire`. Checks everything except the evidence. */
export async function connect(wire: Wire, options: ClientOptions): Promise<TestClient> {
  const { bytes, hello, keys } = await prepare(options.hello);
  wire.text(bytes);
  const attestation = await textFrame(wire, "attestation");
  const { attested, channel } = await secure({ bytes, hello, keys }, attestation, options.now);
  let rid = 0;
  const client: TestClient = {
    attested,
    attestation,
    channel,
    request(number, params) {
      const data = params instanceof Uint8Array ? params : Buffer.from(JSON.stringify(params));
      const pieces = requestPieces(data);
      return pieces.map((piece, at) =>
        unwrap(channel.seal("request", number, piece, at === pieces.length - 1)),
      );
    },
    ask(params) {
      rid++;
      for (const frame of client.request(rid, params)) wire.binary(frame);
      return client.answer(rid);
    },
    async answer(number) {
      const deltas: Readonly<Record<string, unknown>>[] = [];
      for (;;) {
        const { type, value } = await openNext(wire, channel);
        if (type === "chunk") deltas.push(value as Record<string, unknown>);
        if (type !== "final") continue;
        const account = channel.watch.take(number);
        const reportFrame = await textFrame(wire, "report");
        assert.equal(reportFrame.rid, number);
        const report = await checkedReport(reportFrame, attested, hello, account);
        const text = deltas
          .map(({ content }) => (typeof content === "string" ? content : ""))
          .join("");
        return { deltas, text, final: value as Final, report };
      }
    },
    async chunk() {
      const { type, value } = await openNext(wire, channel);
      assert.equal(type, "chunk");
      return value as Record<string, unknown>;
    },
  };
  return client;
}

async function openNext(
  wire: Wire,
  channel: Channel,
): Promise<{ readonly type: string; readonly value: unknown }> {
  const event = await wire.next();
  assert.ok(event.kind === "binary", `no frame: ${JSON.stringify(event)}`);
  const opened = unwrap(channel.open(event.frame));
  return { type: opened.header.type, value: JSON.parse(textOf(opened.data)) };
}

/** Checks that a report is signed by the keyset and matches this session and the frames that this end has seen. */
async function checkedReport(
  { report: bytes, sig }: ReportFrame,
  { keyset, keysetDigest, th, core }: Attested,
  hello: Hello,
  account: WatchedExchange | undefined,
): Promise<UsageReport> {
  assert.ok(await nodeSuite.verify(keyset.ur, reportMessage(bytes), sig));
  const report = readReport(bytes);
  assert.ok(report && account?.hasEnded);
  assert.equal(report.keyset, keysetDigest);
  assert.equal(report.th, Buffer.from(th).toString("hex"));
  assert.equal(report.session, Buffer.from(core.session).toString("base64url"));
  assert.equal(report.rid, account.rid);
  assert.equal(report.reqDigest, account.reqDigest);
  assert.equal(report.resDigest, account.resDigest);
  assert.equal(report.net, hello.network);
  assert.equal(report.model, hello.model);
  return report;
}

async function textFrame<Kind extends "attestation" | "report">(
  wire: Wire,
  kind: Kind,
): Promise<Extract<AttestationFrame | ReportFrame, { kind: Kind }>> {
  const event = await wire.next();
  assert.ok(event.kind === "text", `no text frame: ${JSON.stringify(event)}`);
  const frame = readTextFrame(Buffer.from(event.text));
  assert.ok(!isFault(frame) && frame.kind === kind, event.text.slice(0, 200));
  return frame as Extract<AttestationFrame | ReportFrame, { kind: Kind }>;
}

export async function ending(wire: Wire): Promise<{ code: number; error: string | undefined }> {
  for (;;) {
    const event = await wire.next();
    if (event.kind === "closed") return { code: event.code, error: event.error };
  }
}

export function eventQueue(): { put(event: Event): void; next(): Promise<Event> } {
  const come: Event[] = [];
  const waiting: ((event: Event) => void)[] = [];
  return {
    put(event) {
      const first = waiting.shift();
      if (first === undefined) come.push(event);
      else first(event);
    },
    next() {
      const first = come.shift();
      return first === undefined
        ? new Promise((resolve) => void waiting.push(resolve))
        : Promise.resolve(first);
    },
  };
}
