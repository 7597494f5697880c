/**
 * A load generator that needs little CPU: it uses raw sockets, prepares the requests in advance, and splits answers by
 * Content-Length or chunks. `closed`: each connection sends its next request as soon as it has an answer. `open`:
 * requests have a fixed rate, and their latency begins when they are due, even if all connections are busy, so that a
 * stall of the peer is not hidden (coordinated omission).
 */
import { connect, type Socket } from "node:net";
import { quantile } from "./table.ts";

export interface LoadOptions {
  readonly port: number;
  readonly path: string;
  readonly headers: readonly string[];
  readonly bodies: readonly string[];
  /** Keys of the callers, in turn: each is sent in `Authorization`. */
  readonly keys?: readonly string[];
  readonly connections: number;
  readonly seconds: number;
  /** Requests per second. Without it, the loop is closed. */
  readonly rate?: number;
}

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

interface Connection {
  readonly socket: Socket;
  pending: Buffer | undefined;
  /** -1 if the connection is idle. */
  due: number;
}

/** Rejects if an answer has another status than 200 or is a JSON-RPC error. */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const requests = requestsOf(options);
  const connections = await Promise.all(
    Array.from({ length: options.connections }, () => openConnection(options.port)),
  );
  const latencies: number[] = [];
  const statuses: Record<string, number> = {};
  let errors = 0;
  let sent = 0;
  let stopping = false;
  const idle: Connection[] = [];
  const backlog: number[] = [];
  const done = Promise.withResolvers<void>();
  const started = performance.now();

  const send = (connection: Connection, due: number): void => {
    connection.due = due;
    connection.socket.write(requests[sent++ % requests.length]!);
  };
  const answered = (connection: Connection, head: string, isError: boolean): void => {
    latencies.push(performance.now() - connection.due);
    const status = head.slice(9, 12);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (isError) errors++;
    connection.due = -1;
    if (stopping) {
      if (connections.every((other) => other.due === -1)) done.resolve();
      return;
    }
    if (options.rate === undefined) return send(connection, performance.now());
    const late = backlog.shift();
    if (late === undefined) idle.push(connection);
    else send(connection, late);
  };
  for (const connection of connections) {
    connection.socket.on("data", (chunk: Buffer) => read(connection, chunk, answered));
    connection.socket.on("close", () => {
      done.reject(new Error("the peer closed a connection"));
    });
    if (options.rate === undefined) send(connection, performance.now());
    else idle.push(connection);
  }
  const ticker =
    options.rate === undefined
      ? undefined
      : pace(options.rate, started, (due) => {
          // In turn, because the peer closes a connection that is idle for long.
          const connection = idle.shift();
          if (connection === undefined) backlog.push(due);
          else send(connection, due);
        });
  const timer = setTimeout(() => {
    stopping = true;
    clearInterval(ticker);
    if (connections.every((connection) => connection.due === -1)) done.resolve();
  }, options.seconds * 1000);
  try {
    await done.promise;
  } finally {
    clearTimeout(timer);
    clearInterval(ticker);
    for (const connection of connections) connection.socket.destroy();
  }
  const seconds = (performance.now() - started) / 1000;
  if (errors > 0 || Object.keys(statuses).join() !== "200") {
    throw new Error(`${JSON.stringify(statuses)}, ${errors} JSON-RPC errors`);
  }
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { requests: latencies.length, seconds, p50, p99 };
}

function requestsOf({ path, headers, bodies, keys = [] }: LoadOptions): Buffer[] {
  return Array.from({ length: Math.max(bodies.length, keys.length) }, (_, index) => {
    const body = bodies[index % bodies.length] ?? "";
    const key = keys[index % keys.length];
    const lines = key === undefined ? headers : [...headers, `authorization: Bearer ${key}`];
    return Buffer.from(
      `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n` +
        lines.map((line) => `${line}\r\n`).join("") +
        `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  });
}

function openConnection(port: number): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.once("error", reject);
    socket.once("connect", () => resolve({ socket, pending: undefined, due: -1 }));
  });
}

/**
 * Calls `due` each millisecond for every request whose time has come. They are due at that moment, because the timer's
 * own delay of up to 1 ms must not count as the peer's.
 */
function pace(rate: number, started: number, due: (at: number) => void): NodeJS.Timeout {
  let issued = 0;
  return setInterval(() => {
    const now = performance.now();
    const wanted = Math.floor(((now - started) / 1000) * rate);
    for (; issued < wanted; issued++) due(now);
  }, 1);
}

const headEnd = Buffer.from("\r\n\r\n");

function read(
  connection: Connection,
  chunk: Buffer,
  answered: (connection: Connection, head: string, isError: boolean) => void,
): void {
  const bytes: Buffer =
    connection.pending === undefined ? chunk : Buffer.concat([connection.pending, chunk]);
  connection.pending = undefined;
  const end = bytes.indexOf(headEnd);
  if (end === -1) {
    connection.pending = bytes;
    return;
  }
  const head = bytes.toString("latin1", 0, end).toLowerCase();
  const length = /content-length: (\d+)/.exec(head)?.[1];
  const bodyStart = end + 4;
  const whole =
    length === undefined
      ? bytes.subarray(-5).equals(Buffer.from("0\r\n\r\n"))
      : bytes.length >= bodyStart + Number(length);
  if (!whole) {
    connection.pending = bytes;
    return;
  }
  answered(connection, head, bytes.subarray(bodyStart, bodyStart + 200).includes('"error"'));
}
