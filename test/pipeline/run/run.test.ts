/** An exchange through a pipeline of the test: the order of its hooks, bodies, streams, and every way to end. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { test } from "node:test";
import { refuse, type Exchange, type Outcome, type Reply } from "../../../src/plugin.ts";
import { ask, serve, type TestStep } from "../harness.ts";

const hello = (): Reply => ({
  status: 200,
  headers: ["content-type", "text/plain"],
  body: "hello",
});

function witness(name: string, seen: string[], more: Partial<TestStep> = {}): TestStep {
  return {
    name,
    requestHeaders: () => void seen.push(`${name} down`),
    responseHeaders: () => void seen.push(`${name} up`),
    responseEnd: () => void seen.push(`${name} end`),
    settled: (_, outcome) => void seen.push(`${name} settled ${outcome}`),
    ...more,
  };
}

function settledOnce(): {
  hook: TestStep["settled"];
  outcome: Promise<Outcome>;
  count: () => number;
} {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let calls = 0;
  return {
    hook: (_: Exchange, outcome) => {
      calls++;
      resolve(outcome);
    },
    outcome: promise,
    count: () => calls,
  };
}

test("runs hooks down the list and back up", async () => {
  const seen: string[] = [];
  const steps = [witness("a", seen), witness("b", seen)];
  await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
  const { status, body } = await ask(served, "/x");
  assert.deepEqual([status, body], [200, "hello"]);
  assert.deepEqual(seen, [
    "a down",
    "b down",
    "b up",
    "a up",
    "b end",
    "a end",
    "b settled complete",
    "a settled complete",
  ]);
});

test("runs nothing after a step that replies, and settles the steps that ran", async () => {
  const seen: string[] = [];
  const steps = [
    witness("a", seen),
    witness("b", seen, {
      requestHeaders: () => refuse("GATEWAY_PERMISSION_DENIED"),
    }),
    witness("c", seen),
  ];
  const surface = { answer: () => assert.fail("the surface must not run") };
  await using served = await serve([{ path: "/x", steps, surface }]);
  const { status, body, headers } = await ask(served, "/x");
  assert.equal(status, 403);
  assert.equal(headers["content-type"], "application/json");
  assert.deepEqual(JSON.parse(body), {
    error: "permission denied",
    error_code: "GATEWAY_PERMISSION_DENIED",
  });
  assert.deepEqual(seen, [
    "a down",
    "b up",
    "a up",
    "b end",
    "a end",
    "b settled replied",
    "a settled replied",
  ]);
});

test("runs a step with a condition only for requests that match, in every phase", async () => {
  const seen: string[] = [];
  const when = { header: { "x-debug": "1" } };
  const around: TestStep["around"] = (_, surface) => (seen.push("a around"), surface.answer());
  const steps = [witness("a", seen, { when, around })];
  await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
  await ask(served, "/x");
  assert.deepEqual(seen, []);
  await ask(served, "/x", { headers: { "x-debug": "1" } });
  assert.deepEqual(seen, ["a down", "a around", "a up", "a end", "a settled complete"]);
});

test("passes the value of a slot down, and lets it be set only once", async () => {
  const steps: TestStep[] = [
    { name: "owner", requestHeaders: (x) => x.set("requestId" as never, "r-1" as never) },
    {
      name: "thief",
      requestHeaders: (x) => {
        assert.throws(() => x.set("requestId" as never, "r-2" as never), /set twice/);
        assert.throws(() => x.get("principal" as never), /before it was set/);
      },
    },
  ];
  const surface = {
    answer: (x: Exchange): Reply => ({ status: 200, body: String(x.get("requestId" as never)) }),
  };
  await using served = await serve([{ path: "/x", steps, surface }]);
  assert.equal((await ask(served, "/x")).body, "r-1");
});

test("refuses a request id that could forge a line of a log, and settles once", async () => {
  const seen: string[] = [];
  const forger = { name: "forger", requestHeaders: (x: Exchange) => x.set("requestId", "r\n1") };
  const steps: TestStep[] = [witness("a", seen), forger];
  await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
  assert.equal((await ask(served, "/x")).status, 500);
  const settled = seen.filter((line) => line.includes("settled"));
  assert.deepEqual(settled, ["a settled replied"]);
});

test("lets a surface release the body while it answers", async () => {
  const seen: unknown[] = [];
  const steps: TestStep[] = [{ name: "late", settled: (x) => void seen.push(x.body, x.json()) }];
  const surface = {
    body: { bytes: 1000 },
    answer(x: Exchange): Reply {
      const text = JSON.stringify(x.json());
      x.dropBody();
      return { status: 200, body: text };
    },
  };
  await using served = await serve([{ path: "/x", steps, surface }]);
  const answer = await ask(served, "/x", { method: "POST", body: "[1]" });
  assert.equal(answer.body, '{"ok":true,"value":[1]}');
  while (seen.length === 0) await new Promise(setImmediate);
  assert.deepEqual(seen, [undefined, { ok: false }]);
});

for (const [what, body] of [
  ["is no UTF-8", Buffer.from([0x22, 0xff, 0x22])],
  ["ends within a character", Buffer.from([0x22, 0xe2, 0x82, 0x22])],
  ["has a surrogate in UTF-8", Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ["is no JSON", Buffer.from("{")],
  ["is empty", Buffer.from("")],
] as const) {
  test(`a body that ${what} is not JSON`, async () => {
    const surface = {
      body: { bytes: 1000 },
      answer: (x: Exchange): Reply => ({ status: 200, body: JSON.stringify(x.json()) }),
    };
    await using served = await serve([{ path: "/x", surface }]);
    assert.equal((await ask(served, "/x", { method: "POST", body })).body, '{"ok":false}');
  });
}

test("reads the body once, up to the smallest limit, and lets a step replace it", async () => {
  const steps: TestStep[] = [
    {
      name: "upper",
      bodyBytes: 10,
      requestBody: (x, body) => x.replaceBody(Buffer.from(body.toString().toUpperCase())),
    },
  ];
  const surface = {
    body: { bytes: 1000 },
    answer: (x: Exchange): Reply => ({ status: 200, body: x.body ?? "" }),
  };
  await using served = await serve([{ path: "/x", steps, surface }]);
  assert.equal((await ask(served, "/x", { method: "POST", body: "abc" })).body, "ABC");
  const announced = await ask(served, "/x", { method: "POST", body: "x".repeat(11) });
  assert.equal(announced.status, 413);
  assert.equal(JSON.parse(announced.body).error_code, "GATEWAY_INVALID_PARAMS");
  const chunked = await ask(served, "/x", {
    method: "POST",
    body: "x".repeat(11),
    headers: { "transfer-encoding": "chunked" },
  });
  assert.equal(chunked.status, 413);
});

test("answers 415 for another media type before reading the body", async () => {
  const surface = {
    body: { bytes: 1000, types: ["application/json"] },
    answer: (): Reply => ({ status: 200 }),
  };
  await using served = await serve([{ path: "/x", surface }]);
  const post = (type: string): Promise<{ status: number }> =>
    ask(served, "/x", { method: "POST", body: "{}", headers: { "content-type": type } });
  assert.equal((await post("text/plain")).status, 415);
  assert.equal((await post("application/json; charset=utf-8")).status, 200);
  assert.equal((await post("Application/JSON")).status, 200);
  assert.equal((await ask(served, "/x", { method: "POST", body: "{}" })).status, 415);
});

test("lets responseEnd refuse before the first byte is sent, and shows the refusal to the steps above", async () => {
  const seen: string[] = [];
  const steps: TestStep[] = [
    {
      name: "watch",
      requestHeaders: () => {},
      responseHeaders: (_, head) => void seen.push(`${head.status} ${head.code ?? "-"}`),
    },
    { name: "charge", responseEnd: async () => refuse("GATEWAY_SERVICE_UNAVAILABLE") },
  ];
  await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
  const { status, headers } = await ask(served, "/x");
  assert.equal(status, 503);
  assert.equal(headers["retry-after"], "5");
  assert.deepEqual(seen, ["200 -", "503 GATEWAY_SERVICE_UNAVAILABLE"]);
});

test("returns an aborted signal after the gateway has cut the exchange", async () => {
  const cut = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<boolean>();
  const surface = {
    async answer(x: Exchange): Promise<undefined> {
      const sink = await x.stream(200, []);
      sink.write("half an answer");
      sink.fail("upstreamFailed");
      await cut.promise;
      asked.resolve(x.signal.aborted);
      return undefined;
    },
  };
  await using served = await serve([{ path: "/", surface }]);
  await assert.rejects(ask(served, "/"));
  cut.resolve();
  assert.equal(await asked.promise, true);
});

test("aborts the signal when the client leaves, and settles once, after the surface has returned", async () => {
  const { hook, outcome, count } = settledOnce();
  const aborted = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  let surfaceReturned = false;
  const surface = {
    async answer(x: Exchange): Promise<Reply> {
      entered.resolve();
      x.signal.addEventListener("abort", () => aborted.resolve());
      await aborted.promise;
      assert.equal(count(), 0, "settled waits for the surface");
      surfaceReturned = true;
      return hello();
    },
  };
  const steps: TestStep[] = [{ name: "watch", requestHeaders: () => {}, settled: hook! }];
  await using served = await serve([{ path: "/x", steps, surface }]);
  const socket = connect(served.port, "127.0.0.1");
  socket.write("GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
  await entered.promise;
  socket.destroy();
  assert.equal(await outcome, "clientLeft");
  assert.equal(surfaceReturned, true);
  assert.equal(count(), 1);
});

test("answers 408 and settles as timedOut if the body stops arriving", async () => {
  const { hook, outcome } = settledOnce();
  const steps: TestStep[] = [{ name: "watch", requestHeaders: () => {}, settled: hook! }];
  const surface = { body: { bytes: 100 }, answer: () => assert.fail("no body, no answer") };
  await using served = await serve([{ path: "/x", steps, surface }], {
    server: { bodyIdleMs: 40 },
  });
  const socket = connect(served.port, "127.0.0.1");
  socket.write("POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc");
  const [first] = await once(socket, "data");
  assert.match(String(first), /^HTTP\/1\.1 408 /);
  socket.destroy();
  assert.equal(await outcome, "timedOut");
});

test("keeps the last byte of a stream until responseEnd has run", async () => {
  const gate = Promise.withResolvers<void>();
  const steps: TestStep[] = [{ name: "charge", responseEnd: () => gate.promise }];
  const surface = {
    async answer(x: Exchange): Promise<undefined> {
      const sink = await x.stream(200, ["content-length", "6"]);
      sink.write(Buffer.from("abc"));
      sink.write(Buffer.from("def"));
      await sink.end();
    },
  };
  await using served = await serve([{ path: "/x", steps, surface }]);
  const socket = connect(served.port, "127.0.0.1");
  socket.write("GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
  let text = "";
  socket.on("data", (chunk) => (text += chunk));
  while (!text.includes("abc")) await once(socket, "data");
  assert.ok(!text.includes("def"));
  gate.resolve();
  while (!text.includes("def")) await once(socket, "data");
  socket.destroy();
});

test("cuts off a stream that fails, so that it cannot be mistaken for complete", async () => {
  for (const outcomeWanted of ["upstreamFailed", "timedOut"] as const) {
    const { hook, outcome } = settledOnce();
    const steps: TestStep[] = [{ name: "watch", requestHeaders: () => {}, settled: hook! }];
    const surface = {
      async answer(x: Exchange): Promise<undefined> {
        const sink = await x.stream(200, ["content-type", "text/plain"]);
        sink.write(Buffer.from("half"));
        sink.fail(outcomeWanted);
      },
    };
    await using served = await serve([{ path: "/x", steps, surface }]);
    await assert.rejects(ask(served, "/x"));
    assert.equal(await outcome, outcomeWanted);
  }
});

test("passes chunks through the responseChunk hooks, in replies and in streams", async () => {
  const steps: TestStep[] = [
    {
      name: "upper",
      responseChunk: (_, chunk) => Buffer.from(Buffer.from(chunk).toString().toUpperCase()),
    },
  ];
  const streamed = {
    async answer(x: Exchange): Promise<undefined> {
      const sink = await x.stream(200, []);
      sink.write(Buffer.from("one "));
      sink.write(Buffer.from("two"));
      await sink.end(["x-sum", "3"]);
    },
  };
  await using served = await serve([
    { path: "/reply", steps, surface: { answer: hello } },
    { path: "/stream", steps, surface: streamed },
  ]);
  assert.equal((await ask(served, "/reply")).body, "HELLO");
  const answer = await ask(served, "/stream", { headers: { te: "trailers" } });
  assert.equal(answer.body, "ONE TWO");
  assert.equal(answer.trailers["x-sum"], "3");
});

test("streams text in UTF-8 or latin1, with and without hooks", async () => {
  const texts = ["ä", "€ ", "ä€ ", "plain", " ", "", "", "😀".repeat(5_000), "😀".repeat(5_000)];
  const whole = texts.join("");
  const turns: TestStep = { name: "turns", responseChunk: (_, chunk) => Buffer.from(chunk) };
  for (const { steps = [], headers = [] } of [
    {},
    { steps: [turns] },
    { headers: ["content-length", "40018"] },
    { steps: [{ name: "charge", responseEnd: () => {} }], headers: ["content-length", "40018"] },
  ]) {
    const sent = Promise.withResolvers<number>();
    const watch: TestStep = {
      name: "watch",
      requestHeaders: () => {},
      settled: (x) => sent.resolve(x.sent.bodyBytes),
    };
    const surface = {
      async answer(x: Exchange): Promise<undefined> {
        const sink = await x.stream(200, headers);
        for (const [index, text] of texts.entries()) {
          if (index % 2 === 1) sink.write(text);
          else sink.write(Buffer.from(text).toString("latin1"), "latin1");
          // The first chunk is sent with the head, and each later one separately.
          await new Promise(setImmediate);
          await new Promise(setImmediate);
        }
        await sink.end();
      },
    };
    await using served = await serve([{ path: "/x", steps: [watch, ...steps], surface }]);
    assert.equal((await ask(served, "/x")).body, whole);
    assert.equal(await sent.promise, Buffer.byteLength(whole));
  }
});

test("ignores exceptions and replies of a step in shadow mode, in any phase", async () => {
  const wrong = (): never => {
    throw new Error("no");
  };
  const deny = (): Reply => refuse("GATEWAY_PERMISSION_DENIED");
  const steps: TestStep[] = [
    { name: "a", mode: "shadow", requestHeaders: wrong },
    { name: "b", mode: "shadow", requestHeaders: async () => wrong() },
    { name: "c", mode: "shadow", responseHeaders: wrong },
    { name: "d", mode: "shadow", responseHeaders: async () => wrong() },
    { name: "e", mode: "shadow", responseChunk: wrong },
    { name: "f", mode: "shadow", responseEnd: deny },
    { name: "g", mode: "shadow", responseEnd: async () => deny() },
    { name: "h", mode: "shadow", responseEnd: wrong },
    { name: "i", mode: "shadow", responseEnd: async () => wrong() },
  ];
  const streamed = {
    async answer(x: Exchange): Promise<undefined> {
      const sink = await x.stream(200, []);
      sink.write(Buffer.from("hello"));
      await sink.end();
    },
  };
  await using served = await serve([
    { path: "/reply", steps, surface: { answer: hello } },
    { path: "/stream", steps, surface: streamed },
  ]);
  for (const path of ["/reply", "/stream"]) {
    const { status, body } = await ask(served, path);
    assert.deepEqual([status, body], [200, "hello"], path);
  }
});

test("removes Content-Length if a hook may change the size of chunks", async () => {
  const steps: TestStep[] = [
    { name: "twice", responseChunk: (_, chunk) => Buffer.concat([chunk, chunk]) },
  ];
  const surface = {
    async answer(x: Exchange): Promise<undefined> {
      const sink = await x.stream(200, ["content-length", "5"]);
      sink.write(Buffer.from("12345"));
      await sink.end();
    },
  };
  await using served = await serve([{ path: "/x", steps, surface }]);
  const { body, headers } = await ask(served, "/x");
  assert.equal(body, "1234512345");
  assert.equal(headers["content-length"], undefined);
  const head = await ask(served, "/x", { method: "HEAD" });
  assert.equal(head.headers["content-length"], "5");
});

test("sends early hints in every form of Link that Node accepts, and never breaks the answer", async () => {
  const surface = {
    answer(x: Exchange): Reply {
      x.informational(103, ["link", "</a.css>; rel=preload, </b.js>; rel=preload"]);
      x.informational(103, ["link", '</c>; title="two words"']);
      x.informational(103, ["x-no-link", "1"]);
      return hello();
    },
  };
  await using served = await serve([{ path: "/x", surface }]);
  const socket = connect(served.port, "127.0.0.1");
  socket.write("GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  let text = "";
  socket.on("data", (chunk) => (text += chunk));
  await once(socket, "close");
  assert.match(text, /^HTTP\/1\.1 103 .*<\/a\.css>.*<\/b\.js>.*HTTP\/1\.1 200 .*hello$/s);
});
