import assert from "node:assert/strict";
import { test } from "node:test";
import { HttpClient } from "../../../../../plugins/ledger/ledger/pool/http-client.ts";
import { BatchingClient } from "../../../../../plugins/ledger/ledger/pool/batching-client.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { SingleCall } from "./recorded-request.ts";
import {
  echo,
  failure,
  response,
  result,
  startNode,
  type Received,
  type RpcCall,
  type Script,
} from "./scripted-node.ts";
import { silentLog } from "../../../../test-log.ts";

interface Client extends AsyncDisposable {
  readonly client: BatchingClient;
  readonly clock: ManualClock;
}

function connectTo(url: string): Client {
  const clock = manualClock();
  const http = new HttpClient({
    url: new URL(url),
    connections: 8,
    connectMs: 1_000,
    headersMs: 5_000,
    idleMs: 2_000,
    answerBytes: 10_000,
    clock,
    log: silentLog,
  });
  const client = new BatchingClient(http, clock);
  return { client, clock, [Symbol.asyncDispose]: () => client.close() };
}

function sendAll(client: BatchingClient, methods: readonly string[]): SingleCall[] {
  return methods.map((method) => {
    const call = new SingleCall({ method, cheap: true });
    client.send(call);
    return call;
  });
}

const textsOf = (calls: readonly SingleCall[]): Promise<(string | undefined)[]> =>
  Promise.all(
    calls.map(async (call) => {
      const ending = await call.ending;
      return ending.kind === "failed" ? call.cause : ending.text;
    }),
  );

const isBatch = (received: Received): boolean => received.body.startsWith("[");

/** Answers batches with the result of `answers`, and single calls with their method. */
const batches =
  (answers: (calls: readonly RpcCall[]) => string): Script =>
  (received) => {
    if (isBatch(received)) received.socket.write(response(answers(received.calls())));
    else echo(received);
  };

const echoOf = ({ id, method }: RpcCall): string => result(id, JSON.stringify(method));
const inOrder = (calls: readonly RpcCall[]): string => `[${calls.map(echoOf).join(",")}]`;

test("cheap calls of one turn are sent as one batch and get their own answers", async () => {
  await using node = await startNode(batches(inOrder));
  await using open = connectTo(node.url);
  const calls = sendAll(open.client, ["a", "b", "c"]);
  assert.equal(open.client.inFlight, 3);
  assert.deepEqual(await textsOf(calls), ['"a"', '"b"', '"c"']);
  assert.equal(node.received.length, 1);
  assert.deepEqual(
    node.received[0]?.calls().map(({ method, params }) => [method, params]),
    ["a", "b", "c"].map((method) => [method, ["0x01"]]),
  );
});

test("a single cheap call is sent without a batch", async () => {
  await using node = await startNode(batches(inOrder));
  await using open = connectTo(node.url);
  assert.deepEqual(await textsOf(sendAll(open.client, ["a"])), ['"a"']);
  assert.ok(node.received[0] !== undefined && !isBatch(node.received[0]));
});

test("calls that are not cheap, and calls that write, are sent separately", async () => {
  await using node = await startNode(batches(inOrder));
  await using open = connectTo(node.url);
  const calls = [
    new SingleCall({ method: "a", cheap: false }),
    new SingleCall({ method: "b", cheap: false }),
    new SingleCall({ method: "c", cheap: true, retry: false }),
    new SingleCall({ method: "d", cheap: true, retry: false }),
  ];
  for (const call of calls) open.client.send(call);
  assert.deepEqual(await textsOf(calls), ['"a"', '"b"', '"c"', '"d"']);
  assert.equal(node.received.length, 4);
  assert.ok(!node.received.some(isBatch));
});

test("a batch holds at most 32 calls", async () => {
  await using node = await startNode(batches(inOrder));
  await using open = connectTo(node.url);
  const methods = Array.from({ length: 70 }, (_, i) => `m${i}`);
  const texts = await textsOf(sendAll(open.client, methods));
  assert.deepEqual(
    texts,
    methods.map((method) => `"${method}"`),
  );
  assert.deepEqual(
    node.received.map((received) => received.calls().length),
    [32, 32, 6],
  );
});

test("answers are matched by id, in any order", async () => {
  await using node = await startNode(
    batches((calls) => `[${calls.toReversed().map(echoOf).join(" , ")}]`),
  );
  await using open = connectTo(node.url);
  assert.deepEqual(await textsOf(sendAll(open.client, ["a", "b", "c", "d"])), [
    '"a"',
    '"b"',
    '"c"',
    '"d"',
  ]);
});

test("an error in a batch affects only its call", async () => {
  await using node = await startNode(
    batches((calls) => {
      const texts = calls.map((call) =>
        call.method === "b" ? failure(call.id, { code: 1, message: "no" }) : echoOf(call),
      );
      return `[${texts.join(",")}]`;
    }),
  );
  await using open = connectTo(node.url);
  assert.deepEqual(await textsOf(sendAll(open.client, ["a", "b", "c"])), [
    '"a"',
    '{"code":1,"message":"no"}',
    '"c"',
  ]);
});

test("missing, repeated or unknown items of a batch response fail only the missing calls", async () => {
  await using node = await startNode(
    batches((calls) => {
      const [a, , c] = calls;
      assert.ok(a !== undefined && c !== undefined);
      return `[${[echoOf(c), echoOf(c), result(99_999, "1"), '{"id":null,"result":1}', echoOf(a)].join(",")}]`;
    }),
  );
  await using open = connectTo(node.url);
  const calls = sendAll(open.client, ["a", "b", "c"]);
  assert.deepEqual(await textsOf(calls), ['"a"', "garbage", '"c"']);
  assert.deepEqual(
    calls.map((call) => call.request.endings),
    [1, 1, 1],
  );
});

const refusals: readonly [name: string, text: string][] = [
  [
    "unsupported batches",
    response(failure(null, { code: -32005, message: "Batched requests are not supported" })),
  ],
  [
    "a batch that is too large",
    response(failure(null, { code: -32010, message: "The batch request was too large" })),
  ],
  ["an HTTP 400", response(failure(null, { code: -32700 }), "HTTP/1.1 400 Bad Request")],
  ["an HTTP 413", response("no", "HTTP/1.1 413 Payload Too Large")],
  ["something that is no batch answer", response("{}")],
  ["an answer above the bound", response("x".repeat(10_001))],
];
for (const [name, text] of refusals) {
  test(`a node that answers a batch with ${name} gets the calls separately, and no batch for a minute`, async () => {
    await using node = await startNode((received) => {
      if (isBatch(received)) received.socket.write(text);
      else echo(received);
    });
    await using open = connectTo(node.url);
    assert.deepEqual(await textsOf(sendAll(open.client, ["a", "b"])), ['"a"', '"b"']);
    assert.equal(node.received.length, 3);
    await textsOf(sendAll(open.client, ["c", "d"]));
    assert.equal(node.received.filter(isBatch).length, 1);
    open.clock.advance(60_000);
    node.script = batches(inOrder);
    await textsOf(sendAll(open.client, ["e", "f"]));
    assert.equal(node.received.filter(isBatch).length, 2);
  });
}

test("a batch is sent again if its kept-alive connection turns out to be closed", async () => {
  await using node = await startNode(batches(inOrder));
  await using open = connectTo(node.url);
  await textsOf(sendAll(open.client, ["a", "b"]));
  node.script = (received) => {
    if (received.nth > 1) received.socket.destroy();
    else batches(inOrder)(received);
  };
  assert.deepEqual(await textsOf(sendAll(open.client, ["c", "d"])), ['"c"', '"d"']);
});

test("a batch fails as a whole if its connection fails, or if the node answers 503", async () => {
  await using node = await startNode(({ socket }) => socket.destroy());
  await using open = connectTo(node.url);
  assert.deepEqual(await textsOf(sendAll(open.client, ["a", "b"])), ["closed", "closed"]);
  node.script = ({ socket }) => void socket.write(response("", "HTTP/1.1 503 No"));
  assert.deepEqual(await textsOf(sendAll(open.client, ["a", "b"])), ["status", "status"]);
});

test("close fails calls that are batched and not yet sent", async () => {
  await using node = await startNode(batches(inOrder));
  const { client } = connectTo(node.url);
  const calls = sendAll(client, ["a", "b"]);
  await client.close();
  assert.deepEqual(await textsOf(calls), ["closing", "closing"]);
  await node.deserted();
});
