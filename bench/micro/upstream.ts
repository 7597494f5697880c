/**
 * CPU time of the HTTP clients per answer: undici's dispatcher, and the gateway's own client, which nodes, workers and
 * `forward` use. The last column keeps the fields of the answer, as `forward` does. The server is a process of its own.
 * The clients take turns, and the lowest figure of all rounds is printed, because other work on the machine can only
 * add to it.
 *
 *   node bench/micro/upstream.ts [--rounds 20] [--seconds 0.4]
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import { Pool, type Dispatcher } from "undici";
import { systemClock } from "../../src/base/clock.ts";
import { Http1Client } from "../../src/http/upstream/http1/client.ts";
import type { UpstreamExchange } from "../../src/http/upstream/http1/exchange.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    seconds: { type: "string", default: "0.4" },
    serve: { type: "boolean", default: false },
  },
});
const concurrency = 32;
const chunks = 50;
const kinds = ["small", "20 KB", "50 chunks"] as const;
type Kind = (typeof kinds)[number];
/** Calls `done` after the last byte of the answer. */
type SendRequest = (kind: Kind, done: () => void) => void;

if (values.serve) await serve();
else await main();

async function serve(): Promise<void> {
  const whole = (size: number): Buffer =>
    Buffer.from(
      `HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: ${size}\r\n\r\n${"x".repeat(size)}`,
    );
  const answers: Record<string, Buffer> = { "0": whole(100), "1": whole(20_000) };
  const head = "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n";
  const frame = Buffer.from(`64\r\n${"x".repeat(100)}\r\n`);
  const server = net.createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("data", (request: Buffer) => {
      const answer = answers[request.toString("latin1", 6, 7)];
      if (answer !== undefined) {
        socket.write(answer);
        return;
      }
      socket.write(head);
      let left = chunks;
      const next = (): void => {
        socket.write(frame);
        if (--left > 0) setImmediate(next);
        else socket.write("0\r\n\r\n");
      };
      setImmediate(next);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  process.send?.((server.address() as AddressInfo).port);
}

function undiciClient(origin: string): SendRequest {
  const pool = new Pool(origin, { connections: concurrency, pipelining: 1, allowH2: false });
  return (kind, done) => {
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData() {},
      onResponseEnd: done,
      onResponseError(_, error) {
        throw error;
      },
    };
    pool.dispatch(
      { method: "POST", path: `/${kinds.indexOf(kind)}`, headers: [], body: "{}" },
      handler,
    );
  };
}

function ownClient(origin: string, keepsFields: boolean): SendRequest {
  const url = new URL(origin);
  const client = new Http1Client({
    url,
    connections: concurrency,
    connectMs: 1_000,
    answerMs: 30_000,
    idleMs: 30_000,
    unusedMs: 30_000,
    maxAnswerBytes: 1e9,
    keepsFields,
    clock: systemClock,
    onBug(error) {
      throw error;
    },
  });
  return (kind, done) => {
    const exchange: UpstreamExchange = {
      head: `POST /${kinds.indexOf(kind)} HTTP/1.1\r\nHost: ${url.host}\r\n`,
      retryPolicy: "ifUnanswered",
      answerMs: 30_000,
      body: () => "{}",
      onStart() {},
      onHead() {},
      onData() {},
      onRead() {},
      onEnd: done,
      onError(failure) {
        throw new Error(failure.kind);
      },
    };
    client.send(exchange);
  };
}

/** Returns the CPU time of this process per answer, in microseconds. */
async function measure(ask: SendRequest, kind: Kind, seconds: number): Promise<number> {
  const before = process.cpuUsage();
  const end = performance.now() + seconds * 1000;
  let answers = 0;
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (performance.now() < end) {
        await new Promise<void>((resolve) => ask(kind, resolve));
        answers++;
      }
    }),
  );
  const { user, system } = process.cpuUsage(before);
  return (user + system) / answers;
}

async function main(): Promise<void> {
  const server = fork(import.meta.filename, ["--serve"]);
  const [port] = (await once(server, "message")) as [number];
  const origin = `http://127.0.0.1:${port}`;
  const clients = {
    undici: undiciClient(origin),
    own: ownClient(origin, false),
    fields: ownClient(origin, true),
  };
  console.log("| answer | undici µs | own client µs | own / undici | with fields µs |");
  console.log("| --- | --- | --- | --- | --- |");
  for (const kind of kinds) {
    const best = { undici: Infinity, own: Infinity, fields: Infinity };
    for (let round = 0; round <= Number(values.rounds); round++) {
      for (const name of ["undici", "own", "fields"] as const) {
        const micros = await measure(clients[name], kind, Number(values.seconds));
        // The first round warms up.
        if (round > 0) best[name] = Math.min(best[name], micros);
      }
    }
    const cells = [
      kind,
      best.undici.toFixed(1),
      best.own.toFixed(1),
      (best.own / best.undici).toFixed(2),
      best.fields.toFixed(1),
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
  server.kill();
  process.exit();
}
