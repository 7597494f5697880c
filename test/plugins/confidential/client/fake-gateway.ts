/** A fake gateway with an enclave. It follows the protocol, except where its script says otherwise. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { WebSocketServer, type RawData, type WebSocket as ServerSocket } from "ws";
import type { Channel } from "../../../../plugins/confidential/protocol/channel.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import type { SimulatedState } from "../../../../plugins/confidential/evidence/simulated.ts";
import {
  digestName,
  handshakeMessage,
  sessionKeys,
  transcript,
} from "../../../../plugins/confidential/protocol/handshake.ts";
import { clientSubprotocol, readHello } from "../../../../plugins/confidential/protocol/hello.ts";
import type { Hello } from "../../../../plugins/confidential/protocol/hello.ts";
import { writeCore, writeKeyset } from "../../../../plugins/confidential/protocol/keyset.ts";
import type { Core, Keyset } from "../../../../plugins/confidential/protocol/keyset.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { createSigner, nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import {
  reportMessage,
  writeReport,
} from "../../../../plugins/confidential/protocol/usage-report.ts";
import type { UsageReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import {
  evidenceDigest,
  sessionReportData,
} from "../../../../plugins/confidential/protocol/report-data.ts";
import type { Signer } from "../../../../plugins/confidential/protocol/suite.ts";
import { usageOf } from "../../../../plugins/confidential/protocol/text-frames.ts";
import { joinBytes, toHex } from "../../../../plugins/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import type { AttestationEvidence } from "../../../../plugins/confidential/verify/evidence.ts";
import { createClientMemory } from "../../../../plugins/confidential/client/client.ts";
import type { ConnectOptions } from "../../../../plugins/confidential/client/client.ts";
import type { ClientClock } from "../../../../plugins/confidential/client/clock.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { bytesOf, unwrap, textOf } from "../protocol/session.ts";
import {
  readPolicy,
  signPolicy,
  writePolicy,
  type EnclavePolicy,
  type PolicyDocument,
} from "../../../../plugins/confidential/protocol/policy-document.ts";
import { listen } from "../../../../src/http/demo-server.ts";

/** Milliseconds since 1970. */
export const start = Date.UTC(2026, 10, 21, 12);
export const seconds = start / 1000;
export const day = 24 * 3_600_000;
export const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
export const otherPlatform = await createSimulatedPlatform(new Uint8Array(32).fill(2));
const handshakeSigner = createSigner();
const reportSigner = createSigner();
export const tokens = { prompt: 9, completion: 5, cached: 4, reasoning: 2 };
export const pricing = {
  network: "confidential-alpha",
  coefficient: 1500,
  pricePerTokenNano: "12.5",
  tokenUsdRate: "0.25",
  asOf: "2026-11-21T12:00:00Z",
};
/** 14 × 12.5 × 1.5 × 0.25 = 65.625 */
export const usedCUMilli = 66;

export type Json = Record<string, unknown>;
export type Outgoing = Bytes | string;

export interface Script {
  /** The subprotocol that the server selects. Default: `clientSubprotocol`. */
  readonly protocol?: string;
  /** Status with which the upgrade is refused. */
  readonly status?: number;
  readonly retryAfter?: string;
  readonly holdsUpgrade?: boolean;
  /** Status of the answers to HTTP requests that are no upgrades. */
  readonly httpStatus?: number;
  readonly isSilent?: boolean;
  /** Sends only the digest of the evidence, whether or not the client knows it. */
  readonly sendsDigest?: boolean;
  /** Sends a cached quote even if the client requests its own. */
  readonly ignoresNonce?: boolean;
  readonly hello?: (bytes: Bytes) => Bytes;
  readonly keyset?: Partial<Keyset>;
  /** Changes the core before it is signed. */
  readonly core?: (core: Core) => Bytes;
  readonly handshakeSigner?: Signer;
  readonly state?: SimulatedState;
  readonly reportData?: (reportData: Bytes) => Bytes;
  readonly evidence?: (evidence: AttestationEvidence, reportData: Bytes) => unknown;
  readonly attestation?: (frame: Json) => Outgoing | Json;
  readonly report?: Partial<UsageReport>;
  /** Holds the answer back until the client cancels. */
  readonly holdsAnswer?: boolean;
  readonly deltas?: readonly unknown[];
  readonly final?: Json;
  readonly done?: (frame: Json) => Json;
  /** Changes the frames of one answer: chunks, the last frame, `done`. `request`: the frames that the client sent. */
  readonly outgoing?: (
    frames: readonly Outgoing[],
    request: readonly Bytes[],
  ) => readonly Outgoing[];
}

export interface FakeGateway {
  readonly url: string;
  script: Script;
  readonly clock: ManualClock;
  /** Served at the policy's well-known path. */
  policy: unknown;
  /** Served at /v1/models. */
  models: unknown;
  readonly upgrades: { readonly protocols: string; readonly authorization: string | undefined }[];
  /** Method, path and authorization of each HTTP request that is not an upgrade. */
  readonly requests: string[];
  readonly hellos: Hello[];
  /** The requests that the enclave decrypted, in all sessions. */
  readonly prompts: Json[];
  /** The messages from clients, which are masked on the wire. */
  readonly received: Bytes[];
  frames: number;
  cancels: number;
  readonly closes: number[];
  /** Options for `connect`: complete, and without anything that other tests share. */
  readonly options: ConnectOptions;
}

export interface Edition {
  /** Milliseconds since 1970. */
  readonly now?: number;
  readonly serial?: number;
  readonly expiresAt?: number;
  readonly termination?: "worker" | "gateway";
  readonly network?: string;
  readonly worker?: Partial<EnclavePolicy>;
}

export async function policyBy(signer: Signer, edition: Edition = {}): Promise<PolicyDocument> {
  const { now = start, serial = 1, expiresAt = now + day, termination = "worker" } = edition;
  const { network = "confidential-alpha", worker } = edition;
  const policy = readPolicy({
    v: 1,
    serial,
    issued_at: new Date(now - 1000).toISOString(),
    expires_at: new Date(expiresAt).toISOString(),
    networks: {
      [network]: { termination, worker: { image_hashes: [platform.imageHash], ...worker } },
    },
  });
  if (typeof policy === "string") throw new Error(policy);
  return signPolicy(unwrap(writePolicy(policy)), signer);
}

export interface FakeOptions {
  /** Initial time in milliseconds since 1970. Default: `start`. */
  readonly at?: number;
}

export async function startFakeGateway(
  t: { after(close: () => void): void },
  script: Script = {},
  { at = start }: FakeOptions = {},
): Promise<FakeGateway> {
  const clock = manualClock(at);
  const http = createServer((request, response) => answerHttp(gateway, served, request, response));
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: () => gateway.script.protocol ?? clientSubprotocol,
  });
  http.on("upgrade", (request, socket, head) => {
    const { authorization, "sec-websocket-protocol": protocols = "" } = request.headers;
    gateway.upgrades.push({ protocols, authorization });
    const { status, retryAfter, holdsUpgrade } = gateway.script;
    if (holdsUpgrade === true) return;
    if (status !== undefined) {
      const wait = retryAfter === undefined ? "" : `Retry-After: ${retryAfter}\r\n`;
      const refusal = `HTTP/1.1 ${status} Refused\r\nConnection: close\r\n${wait}`;
      socket.end(`${refusal}Content-Length: 0\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (accepted) => serve(gateway, served, accepted));
  });
  const url = await listen(http, 0, "127.0.0.1");
  const served: Served = { started: at / 1000, evidence: new Map(), ctr: 0 };
  const gateway: FakeGateway = {
    url,
    script,
    clock,
    policy: undefined,
    models: undefined,
    upgrades: [],
    requests: [],
    hellos: [],
    prompts: [],
    received: [],
    frames: 0,
    cancels: 0,
    closes: [],
    options: {
      url,
      apiKey: "gateway_dev_key",
      network: "confidential-alpha",
      model: "demo",
      maxOutputTokens: 64,
      imageHashes: [platform.imageHash],
      allowSimulated: true,
      simulatedRoots: [platform.root],
      treatSimulatedAsVerified: true,
      memory: createClientMemory(),
      clock: clientClock(clock),
    },
  };
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    http.closeAllConnections();
    http.close();
  });
  return gateway;
}

export function clientClock(clock: ManualClock): ClientClock {
  return {
    now: () => clock.now(),
    after(ms, task) {
      const timer = clock.after(ms, task);
      return () => timer[Symbol.dispose]();
    },
  };
}

interface Served {
  /** Seconds since 1970. */
  readonly started: number;
  readonly evidence: Map<string, unknown>;
  ctr: number;
}

function answerHttp(
  gateway: FakeGateway,
  served: Served,
  { method = "", url = "", headers }: IncomingMessage,
  response: ServerResponse,
): void {
  gateway.requests.push([method, url, headers.authorization ?? "-"].join(" "));
  const digest = /^\/v1\/confidential\/evidence\/([0-9a-f]{64})$/.exec(url)?.[1];
  const bodies: Readonly<Record<string, unknown>> = {
    "/.well-known/confidential-policy.json": gateway.policy,
    "/v1/models": gateway.models,
  };
  const body = bodies[url] ?? served.evidence.get(`sha256:${digest ?? ""}`);
  response.statusCode = gateway.script.httpStatus ?? (body === undefined ? 404 : 200);
  response.setHeader("content-type", "application/json");
  response.end(body === undefined ? "{}" : JSON.stringify(body));
}

interface EnclaveSession {
  readonly hello: Hello;
  readonly keyset: Bytes;
  readonly core: Core;
  readonly th: Bytes;
  readonly channel: Channel;
}

function serve(gateway: FakeGateway, served: Served, socket: ServerSocket): void {
  let session: Promise<EnclaveSession | undefined> | undefined;
  let request: Bytes[] = [];
  let body: Uint8Array[] = [];
  // Messages are processed one after the other, in order.
  let turn: Promise<unknown> = Promise.resolve();
  socket.on("close", (code) => void gateway.closes.push(code));
  socket.on("message", (data: RawData, isBinary: boolean) => {
    // ws returns a Buffer by default.
    const bytes = Uint8Array.from(data as Buffer);
    gateway.received.push(bytes);
    if (isBinary) gateway.frames++;
    turn = turn.then(async () => {
      if (session === undefined) {
        session = shake(gateway, served, socket, bytes);
        return;
      }
      const open = await session;
      const opened = open?.channel.open(bytes);
      if (open === undefined || opened === undefined || "kind" in opened) return;
      const { header, data: piece } = opened;
      if (header.type === "request") {
        request.push(bytes);
        body.push(piece);
      } else gateway.cancels++;
      const isDue = header.type === "cancel" || header.isEnd;
      if (!isDue || (header.type === "request" && gateway.script.holdsAnswer === true)) return;
      if (header.type === "cancel" && !open.channel.watch.isOpen()) return;
      if (header.isEnd) {
        // The client created this JSON.
        gateway.prompts.push(JSON.parse(textOf(joinBytes(...body))) as Json);
      }
      const frames = answer(gateway.script, served, open, header.rid, gateway.clock.now());
      for (const frame of gateway.script.outgoing?.(await frames, request) ?? (await frames)) {
        socket.send(frame);
      }
      request = [];
      body = [];
    });
  });
}

async function shake(
  gateway: FakeGateway,
  served: Served,
  socket: ServerSocket,
  sent: Bytes,
): Promise<EnclaveSession | undefined> {
  const { script, clock } = gateway;
  const hello = unwrap(readHello(sent));
  gateway.hellos.push(hello);
  if (script.isSilent === true) return undefined;
  const helloBytes = script.hello?.(sent) ?? sent;
  const started = Math.floor(served.started);
  const keyset = unwrap(
    writeKeyset({
      hs: handshakeSigner.publicKey,
      ur: reportSigner.publicKey,
      net: hello.network,
      role: hello.termination,
      notAfter: started + 3000,
      ...script.keyset,
    }),
  );
  const ephemeral = await nodeSuite.createEphemeral();
  const session = new Uint8Array(16).fill(gateway.hellos.length);
  const core: Core = { epk: ephemeral.publicKey, keyset, session };
  const coreBytes = script.core?.(core) ?? writeCore(core);
  const th1 = await nodeSuite.sha256(transcript(helloBytes, coreBytes));
  const sig = await (script.handshakeSigner ?? handshakeSigner).sign(handshakeMessage(th1));
  const th = await nodeSuite.sha256(joinBytes(th1, sig));
  const evidence = await evidenceFor(script, hello, keyset, clock.now());
  const digest = await evidenceDigest(nodeSuite, evidence);
  served.evidence.set(digest ?? "", evidence);
  const isKnown = digest !== undefined && hello.known.includes(digest);
  const isShort = isKnown || script.sendsDigest === true;
  const frame: Json = {
    type: "attestation",
    core: toBase64Url(coreBytes),
    sig: toBase64Url(sig),
    ...(isShort ? { evidence_digest: digest } : { evidence }),
    offer: { coefficient: 1500, pricePerTokenNano: "12.5", validUntil: "2026-11-21T13:00:00Z" },
  };
  const outgoing = script.attestation?.(frame) ?? frame;
  const isFrame = typeof outgoing === "string" || outgoing instanceof Uint8Array;
  socket.send(isFrame ? outgoing : JSON.stringify(outgoing));
  const ikm = await ephemeral.agree(hello.epk);
  if (ikm === undefined) return undefined;
  const keys = await sessionKeys(nodeSuite, th, ikm);
  const channel = createNodeChannel({ end: "enclave", keys, th, pad: hello.pad });
  return { hello, keyset, core, th, channel };
}

async function evidenceFor(
  script: Script,
  hello: Hello,
  keyset: Bytes,
  now: number,
): Promise<unknown> {
  const keysetName = await digestName(nodeSuite, keyset);
  const isOwn = hello.freshness === "quote" && script.ignoresNonce !== true;
  const nonce = isOwn ? hello.nonce : undefined;
  const bound = await sessionReportData(nodeSuite, keysetName, nonce, hello.termination);
  const reportData = script.reportData?.(bound) ?? bound;
  const hour = 3_600_000;
  // The keyset is issued once per hour, so that a cached quote stays the same for a while.
  const issuedAt = Math.floor(now / hour) * hour - hour;
  const evidence = platform.evidence(reportData, now, { issuedAt, ...script.state });
  const whole = script.evidence?.(evidence, reportData) ?? evidence;
  return JSON.parse(JSON.stringify(whole));
}

async function answer(
  script: Script,
  served: Served,
  { channel, hello, keyset, core, th }: EnclaveSession,
  rid: number,
  now: number,
): Promise<readonly Outgoing[]> {
  const { deltas = [{ content: "Hel" }, { content: "lo" }] } = script;
  const final = { finish_reason: "stop", usage: usageOf(tokens), ...script.final };
  const chunks = deltas.map((delta) =>
    unwrap(channel.seal("chunk", rid, bytesOf(JSON.stringify(delta)))),
  );
  const last = unwrap(channel.seal("final", rid, bytesOf(JSON.stringify(final))));
  const { reqDigest, resDigest } = unwrap(channel.watch.take(rid));
  served.ctr++;
  const report = unwrap(
    writeReport({
      coefficient: 1500,
      ctr: served.ctr,
      finish: "stop",
      iat: Math.floor(now / 1000),
      keyset: await digestName(nodeSuite, keyset),
      model: hello.model,
      net: hello.network,
      reqDigest,
      resDigest,
      rid,
      session: toBase64Url(core.session),
      th: toHex(th),
      tokens,
      ...script.report,
    }),
  );
  const sig = await reportSigner.sign(reportMessage(report));
  const done: Json = {
    type: "done",
    rid,
    // The gateway's own verdict.
    usage: { ...usageOf(tokens), verified: true },
    usedCUMilli,
    report: toBase64Url(report),
    sig: toBase64Url(sig),
    pricing,
  };
  return [...chunks, last, JSON.stringify(script.done?.(done) ?? done)];
}
