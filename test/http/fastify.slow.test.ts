/** The operator's Fastify plugins: every request passes through them, and every answer has the gateway's format. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { StartError } from "../../src/start-error.ts";

/** Starts a gateway with one Fastify plugin, whose body is `source`. The source can use `app` and `options`. */
async function behind(source: string, options = "{}"): Promise<TestGateway> {
  return startTestGateway({
    pipeline: `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
fastify: [{ front: ${options} }]
unmatched: [request-id]
routes:
  - { path: /known, methods: [PROPFIND], run: [request-id], to: discovery }
`,
    prepare(folder) {
      const home = join(folder, "node_modules", "front");
      mkdirSync(home, { recursive: true });
      const body = `const front = async (app, options) => { ${source} };
        front[Symbol.for("skip-override")] = true;
        module.exports = front;`;
      writeFileSync(join(home, "index.js"), body);
    },
  });
}

interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Sends one request as raw bytes, given without the empty line at its end. */
async function send(gateway: TestGateway, head: string, body = ""): Promise<Answer> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  socket.write(`${head}\r\nhost: x\r\nconnection: close\r\n\r\n${body}`, "latin1");
  let text = "";
  socket.on("data", (chunk) => (text += String(chunk)));
  await once(socket, "close");
  const [answerHead = "", ...rest] = text.split("\r\n\r\n");
  const status = Number(answerHead.split(" ")[1]);
  return { status, head: answerHead.toLowerCase(), body: rest.join("\r\n\r\n") };
}

function codeOf({ body }: Answer): unknown {
  return JSON.parse(body.replace(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, "")).error_code;
}

const seals = 'app.addHook("onRequest", async (_, reply) => void reply.header("x-seal", "yes"));';
const denies =
  'app.addHook("onRequest", async (_, reply) => reply.code(403).send("closed by the operator"));';

test("any target passes the plugins and is answered by the pipeline", async () => {
  await using gateway = await behind(seals);
  await using closed = await behind(denies);
  const targets = ["/%zz", "/%ff/a?b=%zz", "/nowhere", "*", "http://x", "http://x/a", "/a%2fb"];
  for (const target of targets) {
    const answer = await send(gateway, `OPTIONS ${target} HTTP/1.1`);
    assert.equal(answer.status, 404, target);
    assert.equal(codeOf(answer), "GATEWAY_NOT_FOUND");
    assert.match(answer.head, /\r\nx-seal: yes/);
    assert.match(answer.head, /\r\nx-request-id: /);
    const denied = await send(closed, `OPTIONS ${target} HTTP/1.1`);
    assert.equal(denied.status, 403, target);
    assert.match(denied.body, /closed by the operator/);
  }
});

test("methods that Fastify does not support by default reach their route, even with a body", async () => {
  await using gateway = await behind(seals);
  const head = "PROPFIND /known HTTP/1.1\r\ncontent-length: 2";
  const answer = await send(gateway, `${head}\r\ncontent-type: application/json`, "{}");
  assert.equal(answer.status, 200);
  assert.match(answer.head, /\r\nx-seal: yes/);
  const wrong = await send(gateway, "PURGE /known HTTP/1.1");
  assert.deepEqual([wrong.status, codeOf(wrong)], [405, "GATEWAY_INVALID_PARAMS"]);
});

test("a content type that is not one gets 415, so that no request bypasses the later hooks of plugins", async () => {
  await using gateway = await behind(seals);
  for (const type of ["nonsense", "text/", "a b/c"]) {
    const head = `PROPFIND /known HTTP/1.1\r\ncontent-length: 2\r\ncontent-type: ${type}`;
    const answer = await send(gateway, head, "{}");
    assert.deepEqual([answer.status, codeOf(answer)], [415, "GATEWAY_INVALID_PARAMS"], type);
  }
  const without = await send(gateway, "PROPFIND /known HTTP/1.1\r\ncontent-length: 2", "{}");
  assert.equal(without.status, 200, "a body without a content type is left to the pipeline");
});

test("bytes that are not HTTP get the gateway's complete 400 exactly once", async () => {
  await using gateway = await behind(seals);
  const answer = await send(gateway, "GET / HTTP/9.9");
  assert.deepEqual([answer.status, codeOf(answer)], [400, "GATEWAY_INVALID_PARAMS"]);
  assert.match(answer.head, /\r\nx-request-id: /);
});

const thrown: readonly (readonly [what: string, status: number, code: string])[] = [
  ['new Error("the secret is 42")', 500, "GATEWAY_INTERNAL_ERROR"],
  [
    'Object.assign(new Error("the secret is 42"), { statusCode: 401 })',
    401,
    "GATEWAY_UNAUTHORIZED",
  ],
  [
    'Object.assign(new Error("the secret is 42"), { statusCode: 429 })',
    429,
    "GATEWAY_RATE_LIMITED",
  ],
  [
    'Object.assign(new Error("the secret is 42"), { statusCode: 418 })',
    418,
    "GATEWAY_INVALID_PARAMS",
  ],
  [
    'Object.assign(new Error("the secret is 42"), { statusCode: 502 })',
    503,
    "GATEWAY_SERVICE_UNAVAILABLE",
  ],
  ['{ statusCode: "many" }', 500, "GATEWAY_INTERNAL_ERROR"],
];
test("what a plugin throws becomes an answer with a code and without the text", async () => {
  const source = `app.addHook("onRequest", async (request, reply) => {
    reply.header("retry-after", "7");
    throw [${thrown.map(([what]) => what).join(", ")}][Number(request.url.slice(2))];
  });`;
  await using gateway = await behind(source);
  for (const [at, [what, status, code]] of thrown.entries()) {
    const answer = await send(gateway, `GET /?${at} HTTP/1.1`);
    assert.deepEqual([answer.status, codeOf(answer)], [status, code], what);
    assert.doesNotMatch(answer.body, /secret/);
    assert.match(answer.head, /\r\nretry-after: 7\r\n/);
    const [, requestId = ""] = /\r\nx-request-id: (\S+)/.exec(answer.head) ?? [];
    assert.notEqual(requestId, "");
    const lines = gateway.lines.filter((line) => line.startsWith("a Fastify plugin failed"));
    const mine = lines.filter((line) => line.includes(requestId));
    assert.equal(mine.length, status >= 500 ? 1 : 0, what);
  }
});

test("a parameter that is too long for a plugin's route leaves the request to the pipeline", async () => {
  await using gateway = await behind('app.get("/own/:name", async () => "mine");');
  assert.equal((await send(gateway, "GET /own/a HTTP/1.1")).body.includes("mine"), true);
  const answer = await send(gateway, `GET /own/${"a".repeat(101)} HTTP/1.1`);
  assert.deepEqual([answer.status, codeOf(answer)], [404, "GATEWAY_NOT_FOUND"]);
});

test("a plugin may handle every request of a method, and leave those that it cannot answer to the pipeline", async () => {
  const source = `app.get("/*", async (request, reply) =>
    request.url === "/file" ? "a file" : reply.callNotFound());`;
  await using gateway = await behind(source);
  assert.match((await send(gateway, "GET /file HTTP/1.1")).body, /a file/);
  const missing = await send(gateway, "GET /nowhere HTTP/1.1");
  assert.deepEqual([missing.status, codeOf(missing)], [404, "GATEWAY_NOT_FOUND"]);
  assert.equal((await send(gateway, "PROPFIND /known HTTP/1.1")).status, 200);
});

test("a plugin's own answer to unknown paths is kept", async () => {
  const source = 'app.setNotFoundHandler(async (_, reply) => reply.code(404).send("mine"));';
  await using gateway = await behind(source);
  assert.equal((await send(gateway, "PROPFIND /known HTTP/1.1")).status, 200);
});

test("a request that expects 100 Continue passes the plugins like any other request", async () => {
  const head = "PROPFIND /known HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2";
  await using closed = await behind(denies);
  const denied = await send(closed, head);
  assert.equal(denied.status, 403);
  assert.match(denied.body, /closed by the operator/);
  await using open = await behind(seals);
  const answer = await send(open, head, "{}");
  const final = answer.status === 100 ? answer.body : answer.head;
  assert.match(final, /^http\/1\.1 200 .*\r\nx-seal: yes/is);
});

test("a plugin that cannot be registered stops the start, and the fault has its position", async () => {
  await assert.rejects(behind('throw new Error("no licence");'), (error) => {
    assert.ok(error instanceof StartError);
    const [fault] = error.faults;
    assert.equal(error.faults.length, 1);
    assert.equal(fault?.code, "SLUICE_PLUGIN_START");
    assert.equal(fault?.message, "front did not start: no licence");
    assert.deepEqual([fault?.at?.line, fault?.at?.col], [5, 13]);
    return true;
  });
});
