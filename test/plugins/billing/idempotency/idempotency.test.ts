/**
 * Tests of the step `idempotency` with all kinds of surfaces, of the format of its header, and of an attempt on a store
 * that answers with promises.
 */
import assert from "node:assert/strict";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { join } from "node:path";
import { after, beforeEach, test } from "node:test";
import * as fc from "fast-check";
import type {
  Idempotency,
  IdempotencySlot,
  Principal,
  StoredResponse,
} from "sluice-gateway/services";
import { IdempotentAttempt } from "../../../../plugins/billing/idempotency/idempotent-attempt.ts";
import step from "../../../../plugins/billing/idempotency/index.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { type TestGateway, startTestGateway } from "../../../../plugins/contracts/testing.ts";
import type { Exchange, Reply, StepHooks } from "../../../../src/plugin.ts";
import { type ManualClock, manualClock } from "../../../../src/testing/clock.ts";
import { closed, listening } from "../../../e2e/rpc-node.ts";
import { bodyOf, fakeExchange, fakeHost, keyPrincipal, missing } from "../../fakes.ts";
import { withDefaults } from "../../with-defaults.ts";

const mebibyte = 1024 * 1024;

function headersHook(
  options: Partial<Parameters<typeof step.start>[0]> = {},
): (x: Exchange) => Reply | void {
  const hooks = step.start(withDefaults(step, options), fakeHost()) as StepHooks;
  return (x) => hooks.requestHeaders?.(x, hooks.createState?.(x)) as Reply | void;
}

function post(key: string | undefined, principal: Principal = keyPrincipal()): Exchange {
  const headers = key === undefined ? {} : { "idempotency-key": key };
  return fakeExchange({ method: "POST", headers, slots: { principal } });
}

test("only keys with the prefix and visible ASCII, at most 255 characters in total, are accepted", () => {
  const check = headersHook();
  const isKey = (key: string): boolean => {
    const refused = check(post(key));
    if (refused !== undefined) assert.equal(refused.code, "GATEWAY_INVALID_IDEMPOTENCY_KEY");
    return refused === undefined;
  };
  const allowed = Array.from({ length: 0x7f - 0x21 }, (_, n) => String.fromCharCode(0x21 + n));
  const unit = fc.constantFrom(...allowed);
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 300 }), (rest) => {
      assert.equal(isKey(`gateway_${rest}`), rest.length <= 255 - "gateway_".length);
    }),
  );
  // node:http accepts other octets as Latin-1.
  const octet = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
  fc.assert(
    fc.property(fc.string({ unit: octet, maxLength: 40 }), fc.boolean(), (text, prefixed) => {
      const key = prefixed ? `gateway_${text}` : text;
      const expected =
        key.startsWith("gateway_") && key.split("").every((each) => allowed.includes(each));
      assert.equal(isKey(key), expected);
    }),
  );
});

test("the prefix is an option and may be empty", () => {
  assert.equal(headersHook({ prefix: "acme-" })(post("acme-1")), undefined);
  const refused = headersHook({ prefix: "acme-" })(post("gateway_1"));
  assert.match(bodyOf(refused)["error"] as string, /"acme-"/);
  assert.equal(headersHook({ prefix: "" })(post("1")), undefined);
});

test("a key without a caller is refused, and safe methods and requests without the header are ignored", () => {
  const check = headersHook();
  assert.equal(check(post("gateway_a", missing))?.status, 400);
  assert.equal(check(post(undefined, missing)), undefined);
  for (const method of ["GET", "HEAD", "OPTIONS", "TRACE"]) {
    const headers = { "idempotency-key": "x" };
    assert.equal(
      check(fakeExchange({ method, headers, slots: { principal: missing } })),
      undefined,
    );
  }
  for (const method of ["PUT", "PATCH", "DELETE", "PURGE"]) {
    const headers = { "idempotency-key": "x" };
    const x = fakeExchange({ method, headers, slots: { principal: keyPrincipal() } });
    assert.equal(check(x)?.status, 400, method);
  }
});

const pipeline = (upstream: string, mode = "enforce"): string => `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
# Longer than all leases of a test, so that an answer that is held does not time out.
upstreams: { shop: { urls: "${upstream}", headersMs: 3600000 } }
lists:
  once: [request-id, authenticate, { idempotency: {}, mode: ${mode} }, { authorize: { require: key } }]
unmatched: [request-id]
routes:
  - { path: /free, methods: ["*"], run: [{ use: once }], to: { forward: { upstream: shop } } }
  - { path: /sold, methods: [POST], run: [{ use: once }, { meter: { price: 500 } }], to: { forward: { upstream: shop } } }
  - { path: "/{id}/purchase", methods: [POST], run: [{ use: once }], to: { workspaces: { do: purchase } } }
`;

interface Shop extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly clock: ManualClock;
  readonly received: string[];
  /** Answer of the upstream to the next requests. The default is `200 done <n>`. */
  readonly script: ((req: IncomingMessage, res: ServerResponse) => void)[];
  readonly send: (path: string, body?: string, more?: RequestInit) => Promise<Response>;
}

/** Each test has an idempotency key of its own, so tests can share a shop. */
let tests = 0;
beforeEach(() => {
  tests++;
});

async function open(mode?: string): Promise<Shop> {
  const received: string[] = [];
  const script: Shop["script"] = [];
  const upstream = createServer((req, res) => {
    let body = "";
    req.setEncoding("utf8");
    req.on("data", (chunk: string) => (body += chunk));
    req.on("end", () => {
      received.push(body);
      const answer = script.shift();
      if (answer !== undefined) return answer(req, res);
      res.writeHead(200, { "content-type": "text/plain", "x-upstream": "1" });
      res.end(`done ${received.length}`);
    });
  });
  const clock = manualClock();
  const url = await listening(upstream);
  const gateway = await startTestGateway({
    pipeline: pipeline(url, mode),
    clock,
    account: { capabilities: ["workspace:admin"], createdAt: clock.now() },
  });
  const responses: Response[] = [];
  return {
    gateway,
    clock,
    received,
    script,
    async send(path, body = "a", more = {}) {
      const response = await fetch(`${gateway.url}${path}`, {
        method: "POST",
        body,
        ...more,
        headers: {
          authorization: `Bearer ${gateway.key}`,
          "content-type": "application/json",
          "idempotency-key": `gateway_${tests}`,
          ...(more.headers as Record<string, string> | undefined),
        },
      });
      responses.push(response);
      return response;
    },
    async [Symbol.asyncDispose]() {
      // With a manual clock, a stop would wait for the connection of an answer that has not ended.
      const unread = responses.filter(({ bodyUsed }) => !bodyUsed);
      await Promise.allSettled(unread.map((response) => response.arrayBuffer()));
      await gateway[Symbol.asyncDispose]();
      await closed(upstream);
    },
  };
}

const shop = await open();
after(() => shop[Symbol.asyncDispose]());
const { received, script } = shop;
beforeEach(() => {
  received.length = 0;
  script.length = 0;
});

const replayed = (response: Response): boolean =>
  response.headers.get("idempotent-replayed") === "true";

test("a streamed answer of an upstream is stored and replayed with only its status, type and bytes", async () => {
  const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, n) => n % 256));
  script.push((_, res) => {
    res.writeHead(202, { "content-type": "application/x-own", "x-upstream": "1" });
    res.write(bytes.subarray(0, 10));
    setImmediate(() => res.end(bytes.subarray(10)));
  });
  const first = await shop.send("/free");
  assert.equal(first.headers.get("x-upstream"), "1");
  assert.deepEqual(Buffer.from(await first.arrayBuffer()), bytes);
  const again = await shop.send("/free");
  assert.deepEqual(Buffer.from(await again.arrayBuffer()), bytes);
  const { status, headers } = again;
  assert.deepEqual(
    [status, headers.get("content-type"), replayed(again)],
    [202, "application/x-own", true],
  );
  assert.equal(headers.get("x-upstream"), null);
  assert.deepEqual(received, ["a"]);
});

const failures: Readonly<Record<string, Shop["script"][number]>> = {
  "a 5xx": (_, res) => void res.writeHead(500).end("broken"),
  "a connection that breaks before the head": (req) => void req.socket.destroy(),
  "a connection that breaks in the body": (_, res) => {
    res.writeHead(200, { "content-length": "10" });
    res.write("half");
    setImmediate(() => res.destroy());
  },
};

test("an answer that failed is not stored, and a repeated request runs again", async () => {
  for (const [what, answer] of Object.entries(failures)) {
    received.length = 0;
    script.push(answer);
    const headers = { "idempotency-key": `gateway_${what.replaceAll(" ", "_")}` };
    await shop
      .send("/free", "a", { headers })
      .then(async (response) => response.arrayBuffer())
      .catch(() => undefined);
    let again = await shop.send("/free", "a", { headers });
    // The connection of the client may be cut a moment before the gateway has settled the exchange.
    while (again.status === 409) {
      await new Promise(setImmediate);
      again = await shop.send("/free", "a", { headers });
    }
    assert.deepEqual([again.status, replayed(again)], [200, false], what);
    assert.deepEqual(received, ["a", "a"], what);
  }
});

test("an answer of 1 MiB, a 404 and an answer without a body are stored", async () => {
  const answers: Shop["script"] = [
    (_, res) => void res.end(Buffer.alloc(mebibyte)),
    (_, res) => void res.writeHead(404).end("none"),
    (_, res) => void res.writeHead(204).end(),
  ];
  for (const [index, answer] of answers.entries()) {
    script.push(answer);
    const headers = { "idempotency-key": `gateway_answer_${index}` };
    const first = await shop.send("/free", "a", { headers });
    const body = await first.arrayBuffer();
    const again = await shop.send("/free", "a", { headers });
    assert.deepEqual([again.status, replayed(again)], [first.status, true]);
    assert.deepEqual(await again.arrayBuffer(), body);
  }
  assert.equal(received.length, answers.length);
});

test("a client that leaves before the answer releases its key", async () => {
  const [held, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  script.push((req) => {
    req.socket.once("close", gone.resolve);
    held.resolve();
  });
  const leaving = new AbortController();
  const first = shop.send("/free", "a", { signal: leaving.signal });
  await held.promise;
  leaving.abort();
  await assert.rejects(first);
  // The connection to the upstream is cut in the same turn, before the exchange has settled.
  await gone.promise;
  const again = await shop.send("/free");
  assert.deepEqual([again.status, replayed(again)], [200, false]);
});

test("a body above 1 MiB gets 400, with and without a key", async () => {
  const body = "x".repeat(mebibyte + 1);
  for (const idempotencyKey of ["gateway_one", "gateway_two"]) {
    const { status } = await shop.send("/free", body, {
      headers: { "idempotency-key": idempotencyKey },
    });
    assert.equal(status, 400);
  }
  assert.equal((await shop.send("/free", body.slice(1))).status, 200);
  assert.deepEqual(received, [body.slice(1)]);
});

test("a replay is not charged", async () => {
  await (await shop.send("/sold")).text();
  for (let n = 0; n < 3; n++) {
    const again = await shop.send("/sold");
    assert.deepEqual([again.status, replayed(again)], [200, true]);
    assert.equal(again.headers.get("x-used-cu-milli"), null);
  }
  const charges = [...readUsage(join(shop.gateway.folder, "data"))];
  assert.deepEqual(
    charges.map(({ usedMilliCu }) => usedMilliCu),
    [500],
  );
});

test("in shadow mode nothing is refused or replayed, and the cases are counted", async () => {
  await using shadow = await open("shadow");
  const { gateway } = shadow;
  const texts: string[] = [];
  for (const body of ["a", "a", "b"]) texts.push(await (await shadow.send("/free", body)).text());
  assert.deepEqual(texts, ["done 1", "done 2", "done 3"]);
  assert.deepEqual(shadow.received, ["a", "a", "b"]);
  const bad = { headers: { "idempotency-key": "bad" } };
  assert.equal((await shadow.send("/free", "a", bad)).status, 200);
  const buy = '{"amount_cu_milli":1}';
  const path = `/${gateway.workspaceId}/purchase`;
  const headers = { "idempotency-key": "gateway_two" };
  for (const left of [1, 2]) {
    const bought = await shadow.send(path, buy, { headers });
    const { workspace } = (await bought.json()) as { workspace: Record<string, unknown> };
    assert.equal(workspace["purchased_cu_milli"], left);
  }
  const shadowed = gateway.lines.filter((line) => line.startsWith("shadow: would have replied"));
  const statuses = shadowed.map((line) => /"status":(\d+)/.exec(line)?.[1]);
  assert.deepEqual(statuses, ["200", "422", "400", "200"]);
});

interface SlowStore {
  readonly idempotency: Idempotency;
  readonly actions: string[];
}

function slowStore(): SlowStore {
  const actions: string[] = [];
  const slot: IdempotencySlot = {
    async store({ body }: StoredResponse) {
      await Promise.resolve();
      actions.push(`stored ${Buffer.from(body).toString()}`);
      return true;
    },
    async release() {
      await Promise.resolve();
      actions.push("released");
    },
  };
  const idempotency: Idempotency = {
    take: async () => Promise.resolve({ kind: "taken", slot }),
    async once(_, work) {
      await Promise.resolve();
      const end = await work();
      actions.push(typeof end === "string" ? end : `committed ${end.status}`);
      return { kind: "ran" };
    },
  };
  return { idempotency, actions };
}

const attemptOn = ({ idempotency }: SlowStore): IdempotentAttempt =>
  new IdempotentAttempt(idempotency, "enforce", "key_1", "gateway_a");

test("a slot that is taken after the exchange has ended is released, and the surface does not run", async () => {
  const store = slowStore();
  const attempt = attemptOn(store);
  const running = attempt.run({ atomic: false, answer: () => assert.fail("it ran") });
  await attempt.release();
  await running;
  assert.deepEqual(store.actions, ["released"]);
});

test("an answer in pieces is stored as a whole, unless it is too large", async () => {
  const stored = async (...pieces: readonly Buffer[]): Promise<readonly string[]> => {
    const store = slowStore();
    const reply: Reply = { status: 200, pieces };
    const attempt = attemptOn(store);
    assert.equal(await attempt.run({ atomic: false, answer: () => reply }), reply);
    await attempt.release();
    return store.actions;
  };
  assert.deepEqual(await stored(Buffer.from("[1,"), Buffer.from("2]")), ["stored [1,2]"]);
  const half = Buffer.alloc(mebibyte / 2);
  assert.deepEqual(await stored(half, half, Buffer.from("1")), ["released"]);
});

test("an atomic surface may answer with a promise, and a failed answer undoes its work", async () => {
  for (const [status, action] of [
    [200, "committed 200"],
    [503, "undo"],
  ] as const) {
    const store = slowStore();
    const reply: Reply = { status, body: "" };
    const answer = async (): Promise<Reply> => Promise.resolve(reply);
    assert.equal(await attemptOn(store).run({ atomic: true, answer }), reply);
    assert.deepEqual(store.actions, [action]);
  }
});
