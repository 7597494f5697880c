import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { connect, type AddressInfo, Socket } from "node:net";
import { before, after, test } from "node:test";
import * as fc from "fast-check";
import type { ClientRequest } from "../../../src/pipeline/arrival.ts";
import { HeadReader } from "../../../src/server/fast-path/head-reader.ts";
import { readHead } from "../../../src/server/fast-path/request-head.ts";

const socket = new Socket();

/** What node:http reads from a head; undefined when it refuses it. */
type Judge = Pick<ClientRequest, "method" | "url" | "headers" | "rawHeaders">;
/** Who waits for what came from a client's port. */
const waiting = new Map<number | undefined, (message: Judge | undefined) => void>();

const judge = createServer();
judge.on("request", (req: IncomingMessage, res) => {
  waiting.get(req.socket.remotePort)?.(req);
  res.end();
});
for (const event of ["checkContinue", "checkExpectation", "upgrade", "connect"]) {
  judge.on(event, (req: IncomingMessage) => waiting.get(req.socket.remotePort)?.(undefined));
}
judge.on("clientError", (_, at) => {
  // Declared as a Duplex; a TCP server has sockets.
  if (at instanceof Socket) waiting.get(at.remotePort)?.(undefined);
  at.destroy();
});

before(async () => {
  judge.listen(0, "127.0.0.1");
  await once(judge, "listening");
});

after(() => {
  judge.close();
  judge.closeAllConnections();
  socket.destroy();
});

async function nodeHttp(text: string): Promise<Judge | undefined> {
  // A listening TCP server has an AddressInfo.
  const client = connect((judge.address() as AddressInfo).port, "127.0.0.1");
  client.on("error", () => {});
  await once(client, "connect");
  const port = client.localPort;
  const { promise, resolve } = Promise.withResolvers<Judge | undefined>();
  waiting.set(port, resolve);
  client.write(`${text}\r\n`, "latin1");
  try {
    return await promise;
  } finally {
    waiting.delete(port);
    client.destroy();
  }
}

function assertSame(read: Judge, expected: Judge): void {
  assert.equal(read.method, expected.method);
  assert.equal(read.url, expected.url);
  assert.deepEqual(read.headers, expected.headers);
  assert.deepEqual(read.rawHeaders, expected.rawHeaders);
}

const ordinary = [
  "POST /v1/ledger/rpc?a=1&b=%20 HTTP/1.1",
  "Host: gateway.example:8080",
  "authorization: Bearer gateway_key",
  "Content-Type: application/json; charset=utf-8",
  "X-Empty:",
  "x-odd-name!#$%&'*+.^`|~_9:  spaced\tout \t",
  "content-length: 12",
  "Connection: keep-alive",
];

const head = (lines: readonly string[]): string => `${lines.join("\r\n")}\r\n`;

test("an ordinary head is read as node:http reads it", async () => {
  const text = head(ordinary);
  const read = readHead(text, socket);
  const expected = await nodeHttp(text);
  assert.ok(read !== undefined && expected !== undefined);
  assertSame(read, expected);
  assert.equal(read.bodyBytes, 12);
  assert.equal(read.keepsAlive, true);
});

test("a client may ask for the connection's end", () => {
  const close = head([...ordinary.slice(0, -1), "connection: Close"]);
  assert.equal(readHead(close, socket)?.keepsAlive, false);
});

const [line = "", host = "", ...fields] = ordinary;
const left: Readonly<Record<string, readonly string[]>> = {
  "HTTP/1.0": [line.replace("1.1", "1.0"), host],
  "HTTP/2.0": [line.replace("1.1", "2.0"), host],
  "no version": ["GET /", host],
  HEAD: ["HEAD / HTTP/1.1", host],
  CONNECT: ["CONNECT a:1 HTTP/1.1", host],
  "a method in lower case": ["get / HTTP/1.1", host],
  "an absolute target": ["GET http://elsewhere/ HTTP/1.1", host],
  "the asterisk": ["OPTIONS * HTTP/1.1", host],
  "a fragment": ["GET /a#b HTTP/1.1", host],
  "a space in the target": ["GET /a b HTTP/1.1", host],
  "two spaces": ["GET  / HTTP/1.1", host],
  "bytes above ASCII in the target": ["GET /\xe9 HTTP/1.1", host],
  "bytes above ASCII in a value": [line, host, "x: \xe9"],
  "a control character": [line, host, "x: a\x01b"],
  NUL: [line, host, "x: a\0b"],
  "a bare line feed": [line, host, "x: a\nb: c"],
  "a bare carriage return": [line, host, "x: a\rb"],
  "a folded line": [line, host, "x: a", " b"],
  "a space before the colon": [line, host, "x : a"],
  "a line without a colon": [line, host, "x"],
  "an empty name": [line, host, ": a"],
  "no fields": [line],
  "no Host": [line, ...fields],
  "two Hosts": [line, host, "HOST: elsewhere"],
  "a Host that is none": [line, "host: a b"],
  "two lengths": [line, host, "content-length: 1", "Content-Length: 1"],
  "a list of lengths": [line, host, "content-length: 1, 1"],
  "a signed length": [line, host, "content-length: +1"],
  "a length in hexadecimal": [line, host, "content-length: 0x1"],
  "an empty length": [line, host, "content-length:"],
  "a length of ten digits": [line, host, "content-length: 1000000000"],
  chunks: [line, host, "transfer-encoding: chunked"],
  "chunks and a length": [line, host, "content-length: 1", "transfer-encoding: chunked"],
  "an upgrade": [line, host, "connection: upgrade", "upgrade: websocket"],
  "an upgrade alone": [line, host, "upgrade: h2c"],
  "several connection options": [line, host, "connection: keep-alive, te"],
  "an expectation": [line, host, "expect: 100-continue"],
  "a repeated field": [line, host, "x: a", "X: b"],
  "a field named as what every object has": [line, host, "__proto__: a"],
  "another such": [line, host, "constructor: a"],
  // Finding 12: the parser of node:http reads it as Connection.
  "Proxy-Connection": [line, host, "Proxy-Connection: close"],
  "cookies that are set": [line, host, "set-cookie: a=b"],
};

for (const [what, lines] of Object.entries(left)) {
  test(`left to node:http: ${what}`, () => {
    assert.equal(readHead(head(lines), socket), undefined);
  });
}

const token = fc.stringMatching(/^[!#$%&'*+.^`|~\w-]{1,12}$/);
const known = fc.constantFrom(
  ..."host content-length transfer-encoding connection proxy-connection expect upgrade cookie set-cookie te x-a".split(
    " ",
  ),
);
const value = fc.oneof(
  { weight: 4, arbitrary: fc.stringMatching(/^[\t -~]{0,20}$/) },
  fc.constantFrom("0", "5", "chunked", "close", "keep-alive", "100-continue", "a.example"),
  fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) }),
);
/** Mostly the first, now and then another. */
const mostly = (usual: string, ...odd: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, fc.constantFrom(...odd));
const field = fc
  .tuple(
    fc.oneof(token, known),
    mostly(": ", ":", " :", ""),
    value,
    mostly("\r\n", "\n", "\r", "\r\n "),
  )
  .map((parts) => parts.join(""));
const anyHead = fc
  .tuple(
    fc.constantFrom("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "get", "PROPFIND"),
    fc.oneof(
      fc.webPath().map((path) => `/${path}`),
      fc.stringMatching(/^\/[ -~]{0,20}$/),
      fc.constant("*"),
    ),
    mostly("HTTP/1.1", "HTTP/1.0", "http/1.1"),
    mostly("host: a.example:1\r\n", "Host:a\r\n", ""),
    fc.array(field, { maxLength: 4 }),
  )
  .map(
    ([method, path, version, at, list]) => `${method} ${path} ${version}\r\n${at}${list.join("")}`,
  );

test("whatever is taken, node:http reads the same", async () => {
  let taken = 0;
  await fc.assert(
    fc.asyncProperty(anyHead, async (text) => {
      const read = readHead(text, socket);
      if (read === undefined) return;
      taken++;
      const expected = await nodeHttp(text);
      assert.ok(expected !== undefined, "node:http refuses it");
      assertSame(read, expected);
    }),
    { numRuns: 5_000 },
  );
  assert.ok(taken > 200, `only ${taken} of the heads were ordinary`);
});

test("heads of one connection are read as each alone, however alike they are", () => {
  const lines = fc
    .array(
      fc.constantFrom("x-a: 1", "x-b:", "Content-Length: 7", "content-length:7", "accept: */*"),
    )
    .map((list) => [line, host, ...list]);
  const lengths = fc.constantFrom("", "0", "7", "12", "1234567890", "7 ", " 7", "x");
  const heads = fc.array(
    fc
      .tuple(lines, lengths)
      .map(([list, length]) => head(list).replace(/(?<=t-length: ?)7/i, length)),
    { minLength: 2, maxLength: 8 },
  );
  fc.assert(
    fc.property(heads, (texts) => {
      const reader = new HeadReader(socket);
      // Each twice, so that one follows its like.
      for (const text of texts.flatMap((each) => [each, each])) {
        const bytes = Buffer.from(`${text}\r\nbody`, "latin1");
        const read = reader.read(bytes);
        assert.deepEqual(read, readHead(text, socket));
        if (read !== undefined) assert.equal(String(bytes.subarray(reader.bodyStart)), "body");
        for (const end of [0, 20, bytes.length - 5]) {
          assert.equal(reader.read(bytes.subarray(0, end)), "incomplete");
        }
      }
    }),
    { numRuns: 2_000 },
  );
});
