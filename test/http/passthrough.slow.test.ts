import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request, type IncomingMessage, type ServerResponse } from "node:http";
import type { Writable } from "node:stream";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { httpUpstream, type Upstream } from "./forwarding-gateway.ts";

const mebibyte = 1024 * 1024;
const bodyMebibytes = 1024;
const warmUpMebibytes = 64;
/** Maximum growth of the gateway's memory while a body of sixteen times that size passes. */
const growthMebibytes = 64;

/** A mebibyte without repetitions: a piece that is lost, doubled or moved changes the hash. */
const pattern = randomBytes(mebibyte + 1024);
const piece = (index: number): Buffer => pattern.subarray(index, index + mebibyte);

const expected = createHash("sha256");
for (let index = 0; index < bodyMebibytes; index++) expected.update(piece(index));
const expectedDigest = expected.digest("hex");

let upstream: Upstream;
let gateway: ChildProcess;
let port: number;

before(async () => {
  upstream = await httpUpstream((req, res) => {
    if (req.method === "GET") void send(res, Number(req.headers["x-mebibytes"]));
    else void receive(req).then((digest) => res.end(digest));
  });
  const script = fileURLToPath(new URL("gateway-process.ts", import.meta.url));
  gateway = fork(script, [String(upstream.port)], { execArgv: [] });
  const [message] = (await once(gateway, "message")) as [{ port: number }];
  port = message.port;
});

after(async () => {
  gateway.disconnect();
  await once(gateway, "exit");
  await upstream[Symbol.asyncDispose]();
});

/** Returns the maximum RSS of the gateway since the last call, in MiB. */
async function maxRss(): Promise<number> {
  gateway.send("rss");
  const [message] = (await once(gateway, "message")) as [{ rss: number }];
  return message.rss / mebibyte;
}

/** Runs a small transfer, then a large one, and compares the memory that the gateway needed. */
async function assertFlat(transfer: (mebibytes: number) => Promise<string>): Promise<void> {
  await transfer(warmUpMebibytes);
  const baseline = await maxRss();
  assert.equal(await transfer(bodyMebibytes), expectedDigest);
  const peak = await maxRss();
  const grown = peak - baseline;
  assert.ok(grown < growthMebibytes, `${baseline.toFixed()} MiB grew to ${peak.toFixed()} MiB`);
}

test("memory does not grow while 1 GiB is downloaded", async () => {
  await assertFlat(async (mebibytes) => {
    const headers = { "x-mebibytes": mebibytes };
    const req = request({ port, host: "127.0.0.1", agent: false, headers }).end();
    return receive(await response(req));
  });
});

test("memory does not grow while 1 GiB is uploaded", async () => {
  await assertFlat(async (mebibytes) => {
    const headers = { "content-length": mebibytes * mebibyte };
    const req = request({ port, host: "127.0.0.1", agent: false, method: "PUT", headers });
    void send(req, mebibytes);
    const chunks: Buffer[] = [];
    for await (const chunk of await response(req)) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString();
  });
});

async function response(req: ReturnType<typeof request>): Promise<IncomingMessage> {
  const [res] = (await once(req, "response")) as [IncomingMessage];
  return res;
}

/** Writes the pieces one after the other, as fast as they are read. */
async function send(to: Writable | ServerResponse, mebibytes: number): Promise<void> {
  for (let index = 0; index < mebibytes; index++) {
    if (!to.write(piece(index))) await once(to, "drain");
  }
  to.end();
}

async function receive(from: IncomingMessage): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of from as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest("hex");
}
