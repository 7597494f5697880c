import assert from "node:assert/strict";
import { Socket } from "node:net";
import { after, test } from "node:test";
import { readHead } from "../../../src/http/fast-path/request-head.ts";
import { assertSameHead, startNodeHttpReference } from "./node-http-reference.ts";

const socket = new Socket();
after(() => socket.destroy());

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
  using judge = await startNodeHttpReference();
  const read = readHead(text, socket);
  const expected = await judge.read(text);
  assert.ok(read !== undefined && expected !== undefined);
  assertSameHead(read, expected);
  assert.equal(read.bodyBytes, 12);
  assert.equal(read.keepsAlive, true);
});

test("a client may request that the connection ends", () => {
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
  test(`node:http handles the request: ${what}`, () => {
    assert.equal(readHead(head(lines), socket), undefined);
  });
}
