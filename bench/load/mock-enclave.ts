/**
 * A worker with a simulated enclave that needs little CPU. The handshake, the evidence, the digests and the signed
 * report of each answer are real. The frames between them have the right form but no content, which only a client could
 * notice. Prints `{ url, simulated_root }`.
 *
 * `max_output_tokens` is the number of chunks. Those of `Bench/Paced-1` are sent 20 ms apart and contain the time at
 * which they were sent (nanoseconds of the machine's monotonic clock, at byte 16). Those of `Bench/Burst-1` are sent as
 * fast as possible.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { createServer } from "node:http";
import { WebSocketServer, type WebSocket } from "ws";
import { createSimulatedPlatform } from "../../plugins/confidential/evidence/simulated.ts";
import { isFault, type Fault } from "../../plugins/confidential/protocol/fault.ts";
import {
  createFrameWatch,
  type FrameWatch,
} from "../../plugins/confidential/protocol/frame-watch.ts";
import { writeHeader, type FrameHeader } from "../../plugins/confidential/protocol/frames.ts";
import { answerHello, digestName } from "../../plugins/confidential/protocol/handshake.ts";
import { readHello } from "../../plugins/confidential/protocol/hello.ts";
import { writeKeyset } from "../../plugins/confidential/protocol/keyset.ts";
import { toBase64Url } from "../../plugins/confidential/protocol/encoding.ts";
import { createSigner, nodeSuite } from "../../plugins/confidential/protocol/node-crypto.ts";
import { reportMessage, writeReport } from "../../plugins/confidential/protocol/usage-report.ts";
import { sessionReportData } from "../../plugins/confidential/protocol/report-data.ts";
import {
  writeAttestation,
  writeReportFrame,
} from "../../plugins/confidential/protocol/text-frames.ts";
import { toHex } from "../../plugins/confidential/verify/binary-text.ts";

interface Session {
  readonly webSocket: WebSocket;
  readonly socket: Socket;
  readonly watch: FrameWatch;
  readonly model: string;
  readonly chunks: number;
  /** Returns the text of the report for a request whose final frame has been sent. */
  readonly report: (rid: number) => Promise<string>;
  rid: number;
  left: number;
}

const chunkMs = 20;
/** Size of a frame of 256 bytes with its padding, header and tag. */
const frameBytes = 16 + 256 + 16;
const net = "bench";

const platform = await createSimulatedPlatform(new Uint8Array(32).fill(7));
const [hs, ur] = [createSigner(), createSigner()];
const notAfter = Math.floor(Date.now() / 1000) + 3000;
const keyset = unwrap(
  writeKeyset({ hs: hs.publicKey, ur: ur.publicKey, net, role: "worker", notAfter }),
);
const digest = await digestName(nodeSuite, keyset);
const shared = await evidenceFor(undefined);
let ctr = 0;

/** The sessions by the millisecond at which they are due, modulo `chunkMs`. */
const wheel: Session[][] = Array.from({ length: chunkMs }, () => []);
const started = performance.now();
let turns = 0;
setInterval(() => {
  const due = Math.floor(performance.now() - started);
  for (; turns < due; turns++) turn(wheel[turns % chunkMs]!);
}, 1);

function turn(sessions: Session[]): void {
  let kept = 0;
  for (const session of sessions) {
    if (session.webSocket.readyState !== session.webSocket.OPEN) continue;
    send(session);
    if (session.rid !== 0) sessions[kept++] = session;
  }
  sessions.length = kept;
}

function send(session: Session): void {
  const { webSocket, watch, rid } = session;
  const isEnd = session.left === 0;
  const frame = Buffer.alloc(frameBytes);
  const header: FrameHeader = {
    type: isEnd ? "final" : "chunk",
    isEnd,
    rid,
    seq: watch.nextSeq("s2c"),
  };
  writeHeader(frame, header);
  frame.writeBigUInt64LE(process.hrtime.bigint(), 16);
  unwrap(watch.observe("s2c", frame));
  webSocket.send(frame);
  session.left--;
  if (!isEnd) return;
  session.rid = 0;
  session.report(rid).then(
    (text) => webSocket.send(text),
    () => webSocket.terminate(),
  );
}

function burst(session: Session): void {
  while (session.rid !== 0 && !session.socket.writableNeedDrain) send(session);
}

async function serve(webSocket: WebSocket, socket: Socket): Promise<void> {
  const [bytes] = (await once(webSocket, "message")) as [Buffer];
  const hello = unwrap(readHello(bytes));
  const id = new Uint8Array(randomBytes(16));
  const { th, core, sig } = unwrap(
    await answerHello(nodeSuite, bytes, hello, { keyset, signer: hs, session: id }),
  );
  const watch = createFrameWatch(nodeSuite.newHash);
  const report = async (rid: number): Promise<string> => {
    const { reqDigest, resDigest } = unwrap(watch.take(rid));
    const signed = unwrap(
      writeReport({
        coefficient: 1000,
        ctr: ++ctr,
        finish: "stop",
        iat: Math.floor(Date.now() / 1000),
        keyset: digest,
        model: hello.model,
        net,
        reqDigest,
        resDigest,
        rid,
        session: toBase64Url(id),
        th: toHex(th),
        tokens: { prompt: 12, completion: hello.maxOutputTokens, cached: 0, reasoning: 0 },
      }),
    );
    return writeReportFrame(rid, signed, await ur.sign(reportMessage(signed)));
  };
  const { model, maxOutputTokens: chunks } = hello;
  const session: Session = { webSocket, socket, watch, model, chunks, report, rid: 0, left: 0 };
  webSocket.on("message", (frame: Buffer, isBinary) => {
    if (!isBinary) return;
    const header = unwrap(watch.observe("c2s", frame));
    if (header.type !== "request" || !header.isEnd) return;
    session.rid = header.rid;
    session.left = chunks;
    if (model === "Bench/Burst-1") burst(session);
    else wheel[(turns + chunkMs - 1) % chunkMs]!.push(session);
  });
  socket.on("drain", () => {
    if (model === "Bench/Burst-1") burst(session);
  });
  const evidence = hello.freshness === "quote" ? await evidenceFor(hello.nonce) : shared;
  webSocket.send(writeAttestation(core, sig, { evidence }));
}

/** `nonce` comes from a client that wants a quote of its own. */
async function evidenceFor(nonce: Uint8Array | undefined): Promise<object> {
  const reportData = await sessionReportData(nodeSuite, digest, nonce, "worker");
  return platform.evidence(reportData, Date.now());
}

const worker = (model: string): object => ({
  id: model,
  model,
  coefficient: 1000,
  state: "active",
});
const status = JSON.stringify({
  price_per_token_nano: "12",
  workers: [worker("Bench/Paced-1"), worker("Bench/Burst-1")],
});
const http = createServer((_, res) =>
  res.setHeader("content-type", "application/json").end(status),
);
const sockets = new WebSocketServer({
  server: http,
  perMessageDeflate: false,
  // The gateway sends messages for workers, and a bare relay forwards those of its client.
  handleProtocols: ([first]) => first ?? false,
});
sockets.on("connection", (webSocket, { socket }) => {
  webSocket.on("error", () => {});
  serve(webSocket, socket).catch(() => webSocket.terminate());
});
http.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
  // A server that listens on a port has an AddressInfo.
  const { port } = http.address() as AddressInfo;
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}`, simulated_root: platform.root }));
});

function unwrap<T extends object>(value: T | Fault | undefined): T {
  if (value === undefined || isFault(value)) throw new Error(JSON.stringify(value));
  return value;
}
