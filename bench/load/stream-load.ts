/**
 * Makes the load of bench/load/stream.ts in a separate process. Its argument is a StreamLoad as JSON. It prints a line
 * when it is ready, waits for a line, makes the load, and prints the result as JSON. Anything unexpected ends it
 * without a result.
 */
import { once } from "node:events";
import { nodeSuite } from "../../plugins/confidential/protocol/node-crypto.ts";
import { readReport } from "../../plugins/confidential/protocol/usage-report.ts";
import { readTextFrame } from "../../plugins/confidential/protocol/text-frames.ts";
import {
  helloFor,
  openSession,
  sayHello,
  unwrap,
  type ClientSession,
  type Destination,
} from "./stream-client.ts";
import { quantile } from "./table.ts";

export interface StreamLoad extends Destination {
  readonly phase: "handshakes" | "idle" | "answers";
  readonly sessions: number;
  /** Seconds from the first request to the end of the last answer. */
  readonly seconds: number;
  /** Duration of an answer at the model's pace in milliseconds. 0 if it is sent as fast as possible. */
  readonly answerMs: number;
}

export interface StreamResult {
  readonly seconds: number;
  readonly handshakes: number;
  readonly answers: number;
  readonly frames: number;
  /** Milliseconds from the sending of a chunk's first token to its receipt. NaN if the chunk has no time. */
  readonly p50: number;
  readonly p99: number;
}

/** Time for opening the sessions, and for late answers. */
const graceMs = 20_000;
const nothing: StreamResult = {
  seconds: 0,
  handshakes: 0,
  answers: 0,
  frames: 0,
  p50: NaN,
  p99: NaN,
};

// stream.ts passes this argument.
const load = JSON.parse(process.argv[2] ?? "") as StreamLoad;
setTimeout(
  () => {
    throw new Error("the load does not come to an end");
  },
  load.seconds * 1000 + graceMs,
);
const sessions = load.phase === "handshakes" ? [] : await openAll();
console.log("ready");
await once(process.stdin, "data");
console.log(JSON.stringify(await run()));
process.exit();

function run(): Promise<StreamResult> | StreamResult {
  if (load.phase === "handshakes") return handshakes();
  if (sessions.some(({ socket }) => socket.readyState !== socket.OPEN)) {
    throw new Error("a session has ended by itself");
  }
  return load.phase === "idle" ? nothing : answers();
}

async function openAll(): Promise<readonly ClientSession[]> {
  const opened: ClientSession[] = [];
  let begun = 0;
  const lane = async (): Promise<void> => {
    while (begun++ < load.sessions) opened.push(await openSession(load));
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  return opened;
}

async function handshakes(): Promise<StreamResult> {
  const { publicKey } = await nodeSuite.createEphemeral();
  const hello = helloFor(load, publicKey);
  const begun = performance.now();
  const end = begun + load.seconds * 1000;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      const { socket, data } = await sayHello(load, hello);
      if (!data.includes('"attestation"')) throw new Error(data.toString());
      done++;
      socket.close();
      await once(socket, "close");
    }
  };
  await Promise.all(Array.from({ length: load.sessions }, lane));
  return { ...nothing, handshakes: done, seconds: (performance.now() - begun) / 1000 };
}

/** Sessions send the next request as soon as they have an answer. They begin evenly spread over the first answer. */
async function answers(): Promise<StreamResult> {
  const latencies: number[] = [];
  const begun = performance.now();
  const end = begun + load.seconds * 1000 - load.answerMs;
  const counts = await Promise.all(
    sessions.map(async (session, index) => {
      const startMs = (index / sessions.length) * load.answerMs;
      await new Promise((resolve) => setTimeout(resolve, startMs));
      return converse(session, end, latencies);
    }),
  );
  const seconds = (performance.now() - begun) / 1000;
  const sum = (of: "answers" | "frames"): number =>
    counts.reduce((total, count) => total + count[of], 0);
  const done = { answers: sum("answers"), frames: sum("frames") };
  // The mock enclave seals each token separately.
  if (load.termination === "worker" && done.frames !== done.answers * (load.tokens + 1)) {
    throw new Error(`${done.frames} frames of ${done.answers} answers`);
  }
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { ...nothing, ...done, seconds, p50, p99 };
}

/** Runs one session until `end`. Adds to `latencies`. */
function converse(
  { socket, channel }: ClientSession,
  end: number,
  latencies: number[],
): Promise<Pick<StreamResult, "answers" | "frames">> {
  const { promise, resolve } = Promise.withResolvers<Pick<StreamResult, "answers" | "frames">>();
  const { model, tokens, termination } = load;
  const messages = [{ role: "user", content: "Say the same word again and again, please." }];
  const request = Buffer.from(JSON.stringify({ model, messages, max_tokens: tokens }));
  let rid = 0;
  let frames = 0;
  let isDone = false;
  const ask = (): void => socket.send(unwrap(channel.seal("request", ++rid, request, true)));
  /** Returns the time in a chunk. The mock enclave does not seal its frames, so they are observed and not opened. */
  const take = (frame: Buffer): number | undefined => {
    if (termination === "gateway") return momentIn(unwrap(channel.open(frame)).data);
    unwrap(channel.watch.observe("s2c", frame));
    return load.answerMs === 0 ? undefined : Number(frame.readBigUInt64LE(16));
  };
  socket.on("message", (data: Buffer, isBinary) => {
    if (isBinary) {
      frames++;
      const sent = take(data);
      // Both ends run on one machine and read the same clock.
      if (sent !== undefined) latencies.push((Number(process.hrtime.bigint()) - sent) / 1e6);
      return;
    }
    checkEnd(data, channel.watch.take(rid)?.hasEnded === true);
    if (performance.now() < end) return ask();
    isDone = true;
    socket.terminate();
    resolve({ answers: rid, frames });
  });
  socket.on("close", (code) => {
    if (!isDone) throw new Error(`a session ended: ${code}`);
  });
  ask();
  return promise;
}

/** Returns the nanoseconds that the mock model wrote into the first token. */
function momentIn(data: Uint8Array): number | undefined {
  const digits = /\d{9,}/.exec(Buffer.from(data).toString("latin1"))?.[0];
  return digits === undefined ? undefined : Number(digits);
}

/** The cost follows the answer, with the enclave's report of as many tokens as the request asked for. */
function checkEnd(text: Buffer, isWhole: boolean): void {
  const frame = unwrap(readTextFrame(text));
  const reportText = frame.kind === "report" || frame.kind === "done" ? frame.report : undefined;
  const report = reportText && readReport(reportText);
  if (!isWhole || report?.tokens.completion !== load.tokens) {
    throw new Error(`an answer that is not whole: ${text.toString()}`);
  }
}
