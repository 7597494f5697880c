/** A scripted worker with a simulated enclave. It follows the protocol, except where a test changes its behaviour. */
import { once } from "node:events";
import { createServer } from "node:http";
import { randomBytes } from "node:crypto";
import { WebSocketServer, type WebSocket } from "ws";
import type { Channel } from "../../../../plugins/confidential/protocol/channel.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import {
  closeCodes,
  errorFrame,
  isFault,
  type Fault,
} from "../../../../plugins/confidential/protocol/fault.ts";
import { answerHello } from "../../../../plugins/confidential/protocol/handshake.ts";
import {
  readHello,
  workerSubprotocol,
  type Hello,
} from "../../../../plugins/confidential/protocol/hello.ts";
import { writeKeyset, type Keyset } from "../../../../plugins/confidential/protocol/keyset.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { createSigner, nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import {
  reportMessage,
  writeReport,
  type UsageReport,
} from "../../../../plugins/confidential/protocol/usage-report.ts";
import {
  evidenceDigest,
  sessionReportData,
} from "../../../../plugins/confidential/protocol/report-data.ts";
import {
  writeAttestation,
  writeReportFrame,
} from "../../../../plugins/confidential/protocol/text-frames.ts";
import { toHex, type Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { unwrap } from "../protocol/session.ts";
import { close, listen } from "../../../../src/http/demo-server.ts";

export const model = "Test/Model-1";

/** The behaviour of a worker. By default it answers "Hello world" and reports 5 and 2 tokens. */
export interface Script {
  readonly chunks?: readonly object[];
  readonly final?: object;
  readonly pace?: () => Promise<void>;
  /** Waits before it reads the frames after `hello`. */
  readonly listens?: () => Promise<void>;
  readonly tokens?: UsageReport["tokens"];
  readonly report?: (report: UsageReport) => UsageReport;
  readonly signReport?: (
    message: Bytes,
    sign: (message: Bytes) => Promise<Bytes>,
  ) => Promise<Bytes>;
  /** Returns the frame to send instead of the next frame. Undefined if the frame is lost. */
  readonly frame?: (frame: Bytes, index: number) => Bytes | undefined;
  /** Waits before it answers `hello`. */
  readonly greets?: () => Promise<void>;
  /** Sent instead of an attestation. */
  readonly answer?: (hello: Hello) => string | undefined;
  /** The session id, 16 bytes. Random by default. */
  readonly session?: Bytes;
  readonly sig?: (sig: Bytes) => Bytes;
  readonly keyset?: (keyset: Keyset) => Keyset;
  readonly reportData?: (reportData: Bytes) => Bytes;
  readonly evidence?: (evidence: object, hello: Hello) => object;
  /** Returns the report to send instead. Undefined if no report is sent. */
  readonly reportFrame?: (frame: string) => string | undefined;
  /** A text frame that directly follows the report. */
  readonly last?: string;
}

export interface EnclaveWorker extends AsyncDisposable {
  /** `ws://127.0.0.1:PORT/cstream/1`. */
  readonly url: string;
  readonly root: string;
  coefficient: number;
  /** The price in the status document, in nano native tokens per token, or the prices of classes of tokens. */
  price: unknown;
  script: Script;
  /** One per session that was opened, including those for checks. */
  readonly hellos: readonly Hello[];
  readonly requests: readonly Readonly<Record<string, unknown>>[];
  /** Text frames after hello. */
  readonly texts: readonly string[];
  /** Bytes of frames that the gateway has not read yet. */
  readonly waitingBytes: number;
  cut(): void;
}

/** Creating a platform takes a second, so all tests of a file share one. */
const platform = createSimulatedPlatform(new Uint8Array(32).fill(7));

export async function startEnclaveWorker(net = "alpha"): Promise<EnclaveWorker> {
  const simulated = await platform;
  const hs = createSigner();
  const ur = createSigner();
  const hellos: Hello[] = [];
  const requests: Readonly<Record<string, unknown>>[] = [];
  const texts: string[] = [];
  const notAfter = Math.floor(Date.now() / 1000) + 3000;
  let ctr = 0;

  const http = createServer((req, res) => {
    if (req.url !== "/status") return res.writeHead(404).end();
    const one = { id: "w1", model, coefficient: worker.coefficient, state: "active" };
    return res
      .setHeader("content-type", "application/json")
      .end(JSON.stringify({ price_per_token_nano: worker.price, workers: [one] }));
  });
  const sockets = new WebSocketServer({
    server: http,
    path: "/cstream/1",
    perMessageDeflate: false,
    handleProtocols: () => workerSubprotocol,
  });
  sockets.on("connection", (socket) => {
    // The worker cannot understand some messages that a test sends on purpose.
    serve(socket).catch(() => socket.close());
  });

  async function attest(hello: Hello, keyset: Bytes, digest: string): Promise<object> {
    const nonce = hello.freshness === "quote" ? hello.nonce : undefined;
    const { reportData = (bytes) => bytes, evidence = (shown) => shown } = worker.script;
    const bound = await sessionReportData(nodeSuite, digest, nonce, "worker");
    return evidence(simulated.evidence(reportData(bound), Date.now()), hello);
  }

  async function serve(socket: WebSocket): Promise<void> {
    const [bytes] = (await once(socket, "message")) as [Buffer];
    const hello = unwrap(readHello(bytes));
    hellos.push(hello);
    await worker.script.greets?.();
    const instead = worker.script.answer?.(hello);
    if (instead !== undefined) return socket.send(instead);
    const { keyset: altered = (one: Keyset) => one, sig = same } = worker.script;
    const plain: Keyset = { hs: hs.publicKey, ur: ur.publicKey, net, role: "worker", notAfter };
    const keyset = writeKeyset(altered(plain));
    if (keyset === undefined) throw new Error("the keyset has no canonical form");
    const session = worker.script.session ?? new Uint8Array(randomBytes(16));
    const answer = unwrap(
      await answerHello(nodeSuite, bytes, hello, { keyset, signer: hs, session }),
    );
    const digest = `sha256:${toHex(await nodeSuite.sha256(keyset))}`;
    const evidence = await attest(hello, keyset, digest);
    const name = await evidenceDigest(nodeSuite, evidence);
    const isKnown = hello.evidence === "known" && name !== undefined && hello.known.includes(name);
    const shown = isKnown ? { evidence_digest: name } : { evidence };
    socket.send(writeAttestation(answer.core, sig(answer.sig), shown));
    const channel = createNodeChannel({
      end: "enclave",
      keys: answer.keys,
      th: answer.th,
      pad: hello.pad,
    });
    const { listens } = worker.script;
    if (listens !== undefined) {
      socket.pause();
      void listens().then(() => socket.resume());
    }
    let request = Buffer.alloc(0);
    socket.on("message", (data: Buffer, isBinary) => {
      if (!isBinary) return void texts.push(data.toString());
      const opened = channel.open(data);
      if (isFault(opened)) {
        socket.send(errorFrame(opened));
        return socket.close(closeCodes[opened.code]);
      }
      const { header, data: piece } = opened;
      if (header.type === "cancel") return undefined;
      request = Buffer.concat([request, piece]);
      if (!header.isEnd) return undefined;
      // A request is a JSON object.
      requests.push(JSON.parse(request.toString()) as Readonly<Record<string, unknown>>);
      request = Buffer.alloc(0);
      const facts = { hello, digest, session: toBase64Url(session), th: answer.th };
      return void respond(socket, channel, header.rid, facts);
    });
  }

  async function respond(
    socket: WebSocket,
    channel: Channel,
    rid: number,
    facts: { hello: Hello; digest: string; session: string; th: Bytes },
  ): Promise<void> {
    const { script } = worker;
    const chunks = script.chunks ?? [{ content: "Hello" }, { content: " world" }];
    const { frame: altered = same } = script;
    let index = 0;
    const send = (sealed: Bytes | Fault): void => {
      const frame = altered(unwrap(sealed), index++);
      if (frame !== undefined) socket.send(frame);
    };
    for (const chunk of chunks) {
      await script.pace?.();
      send(channel.seal("chunk", rid, Buffer.from(JSON.stringify(chunk))));
    }
    const final = script.final ?? { finish_reason: "stop" };
    send(channel.seal("final", rid, Buffer.from(JSON.stringify(final))));
    const account = channel.watch.take(rid);
    if (account === undefined) throw new Error("there is no account of the request");
    const { report: change = (report) => report, tokens } = script;
    const report = writeReport(
      change({
        coefficient: worker.coefficient,
        ctr: ++ctr,
        finish: "stop",
        iat: Math.floor(Date.now() / 1000),
        keyset: facts.digest,
        model: facts.hello.model,
        net: facts.hello.network,
        reqDigest: account.reqDigest,
        resDigest: account.resDigest,
        rid,
        session: facts.session,
        th: toHex(facts.th),
        tokens: tokens ?? { prompt: 5, completion: 2, cached: 0, reasoning: 0 },
      }),
    );
    if (report === undefined) throw new Error("the report has no canonical form");
    const sign = async (message: Bytes): Promise<Bytes> => hs.publicKey && ur.sign(message);
    const { signReport = (message, signed) => signed(message) } = script;
    const sig = await signReport(reportMessage(report), sign);
    const { reportFrame = (text) => text } = script;
    const text = reportFrame(writeReportFrame(rid, report, sig));
    if (text !== undefined) socket.send(text);
    if (script.last !== undefined) socket.send(script.last);
  }

  const { host } = new URL(await listen(http, 0, "127.0.0.1"));
  const worker: EnclaveWorker = {
    url: `ws://${host}/cstream/1`,
    root: simulated.root,
    coefficient: 1000,
    price: "12",
    script: {},
    hellos,
    requests,
    texts,
    get waitingBytes() {
      return [...sockets.clients].reduce((sum, { bufferedAmount }) => sum + bufferedAmount, 0);
    },
    cut() {
      for (const socket of sockets.clients) socket.terminate();
    },
    async [Symbol.asyncDispose]() {
      worker.cut();
      sockets.close();
      await close(http);
    },
  };
  return worker;
}

function same(bytes: Bytes): Bytes {
  return bytes;
}
