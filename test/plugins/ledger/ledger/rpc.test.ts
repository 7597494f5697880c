/** The JSON-RPC of the node proxy (decisions.md section 5), without HTTP and charges. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HeldBytes } from "../../../../src/memory/held-bytes.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import type { RpcAnswer } from "../../../../plugins/contracts/index.ts";
import { hash, request, testLedger, type TestLedger } from "./fixture.ts";

/** Runs a body. `node` answers every call that reaches a node, in the order in which they were sent. */
async function exchange(
  { ledger, pool }: TestLedger,
  body: string | Buffer,
  node: (call: string) => string = () => '"ok"',
): Promise<{
  text: string | undefined;
  costMilliCu: number;
  owed: number;
  failure: string | undefined;
}> {
  const rpc = ledger.rpc(Buffer.from(body));
  const running = rpc.run();
  while (pool.waiting.length > 0) {
    const next = pool.waiting[0];
    pool.result(node(`${next?.method} ${next?.params}`));
  }
  const answered = await running;
  const owed = rpc.lines.reduce((sum, line) => sum + line.costMilliCu, 0);
  const text = answered === undefined ? undefined : textOf(answered);
  return { text, costMilliCu: rpc.costMilliCu, owed, failure: rpc.failure };
}

function textOf(answer: Exclude<RpcAnswer, undefined>): string {
  if (typeof answer === "string") return answer;
  return Buffer.concat(answer instanceof Uint8Array ? [answer] : answer).toString();
}

const parseError = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}';
const invalidFor = (id: string): string =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":-32600,"message":"Invalid Request"}}`;
const notAllowedFor = (id: string): string =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"Method Not Allowed"}}`;
const internalFor = (id: string): string =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"Internal Error"}}`;

describe("a single call", () => {
  it("is answered with the client's id and the node's result, byte for byte", async () => {
    const result = '{"b":1,"a":1.0,"n":340282366920938463463374607431768211455,"s":"\\u00e9\\/é"}';
    for (const id of ["1", '"x\\n✓"', "null", "-0.50e3", "18446744073709551616"]) {
      const test = testLedger();
      const { text, costMilliCu, owed } = await exchange(
        test,
        request("chain_getHead", "[]", id),
        () => result,
      );
      assert.equal(text, `{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      assert.deepEqual([costMilliCu, owed], [100, 100]);
    }
  });

  it("keeps the bytes of a large result and of its id", async () => {
    const result = `"0x${"ab".repeat(100_000)}é"`;
    const test = testLedger();
    const body = request("state_getMetadata", `["${hash(1)}"]`, '"é"');
    const wanted = `{"jsonrpc":"2.0","id":"é","result":${result}}`;
    assert.equal((await exchange(test, body, () => result)).text, wanted);
    assert.equal((await exchange(test, body)).text, wanted);
    assert.equal(test.pool.sent.length, 1);
  });

  it("reaches the node in a new envelope, with its decoded method and its params as sent", async () => {
    const test = testLedger();
    const body =
      '{"x":"\\u0000","id":9,"params":[ 1.0, "\\u0041" ],"method":"chain_get\\u0048eader","jsonrpc":"2.0"}';
    await exchange(test, body);
    await exchange(test, request("chain_getHeader", '{"hash":null}'));
    await exchange(test, request("chain_getHeader"));
    assert.deepEqual(test.pool.sent, [
      'chain_getHeader [ 1.0, "\\u0041" ]',
      'chain_getHeader {"hash":null}',
      "chain_getHeader ",
    ]);
  });

  it("returns a node's error unchanged, and owes its price", async () => {
    const { ledger, pool } = testLedger();
    for (const error of ['{"code":4003,"message":"x","data":[1.0]}', '{"message":"no code"}']) {
      const rpc = ledger.rpc(Buffer.from(request("state_call", "[]")));
      const running = rpc.run();
      pool.error(error);
      assert.equal(await running, `{"jsonrpc":"2.0","id":1,"error":${error}}`);
      assert.deepEqual(rpc.lines, [{ method: "state_call", costMilliCu: 5000 }]);
      assert.equal(rpc.failure, undefined);
    }
  });

  it("is an internal error without a charge if no node answers", async () => {
    const { ledger, pool } = testLedger();
    for (const reason of ["unreachable", "timeout", "garbage", "aborted"] as const) {
      const rpc = ledger.rpc(Buffer.from(request("chain_getBlock", "[]", '"a"')));
      const running = rpc.run();
      pool.fail(reason);
      assert.equal(await running, internalFor('"a"'));
      assert.deepEqual([rpc.lines, rpc.failure, rpc.costMilliCu], [[], reason, 1000]);
    }
  });

  it("is answered at once from the cache, and owes the same price", async () => {
    const test = testLedger();
    const body = request("state_getStorage", `["0x26aa","${hash(1)}"]`);
    await exchange(test, body, () => '"0x01"');
    const rpc = test.ledger.rpc(Buffer.from(body.replace('"id":1', '"id":"other"')));
    assert.equal(rpc.run(), '{"jsonrpc":"2.0","id":"other","result":"0x01"}');
    assert.deepEqual(rpc.lines, [{ method: "state_getStorage", costMilliCu: 500 }]);
  });

  it("owes the same price when it shares an identical call, under its own name and id", async () => {
    const { ledger, pool } = testLedger();
    const body = (id: string): Buffer => Buffer.from(request("chain_getHead", "[]", id));
    const rpcs = ["1", '"2"'].map((id) => ledger.rpc(body(id)));
    const running = rpcs.map((rpc) => rpc.run());
    pool.result('"0x07"');
    assert.deepEqual(await Promise.all(running.map(async (text) => await text)), [
      '{"jsonrpc":"2.0","id":1,"result":"0x07"}',
      '{"jsonrpc":"2.0","id":"2","result":"0x07"}',
    ]);
    for (const rpc of rpcs)
      assert.deepEqual(rpc.lines, [{ method: "chain_getHead", costMilliCu: 100 }]);
  });

  it("of rpc_methods is answered by the gateway, for its price", async () => {
    const test = testLedger({ methods: { state_call: false } });
    const { text, owed } = await exchange(test, request("rpc_methods", "[]"));
    assert.equal(owed, 100);
    const answer = JSON.parse(text ?? "") as { result: { methods: string[] } };
    assert.deepEqual(answer.result.methods, [...test.ledger.methods.keys()].toSorted());
    assert.equal(test.pool.sent.length, 0);
  });

  it("is billed under the name that the client used", async () => {
    const { ledger, pool } = testLedger();
    const rpc = ledger.rpc(Buffer.from(request("account_nextIndex", '["5G"]')));
    const running = rpc.run();
    assert.deepEqual(pool.sent, ['system_accountNextIndex ["5G"]']);
    pool.result("7");
    await running;
    assert.deepEqual(rpc.lines, [{ method: "account_nextIndex", costMilliCu: 500 }]);
  });
});

describe("a call that never reaches a node", () => {
  it("is a method that is not on the whitelist", async () => {
    const names = [
      "author_rotateKeys",
      "dev_setStorage",
      "System_chain",
      "system_chain ",
      "",
      "__proto__",
      "constructor",
    ];
    for (const name of names) {
      const test = testLedger();
      const { text, costMilliCu } = await exchange(test, request(name, "[]", '"i"'));
      assert.deepEqual([text, costMilliCu], [notAllowedFor('"i"'), 0], name);
      assert.equal(test.pool.sent.length, 0);
    }
  });

  it("is a body that is not JSON-RPC", async () => {
    const bodies: [string | Buffer, string][] = [
      ["", parseError],
      [Buffer.from([0x22, 0xff, 0x22]), parseError],
      ["[]", invalidFor("null")],
      ["{}", invalidFor("null")],
      [
        `[${Array.from({ length: 51 }, () => request("system_chain")).join(",")}]`,
        invalidFor("null"),
      ],
      [request("system_chain", "[]", "[]"), invalidFor("null")],
      [request("system_chain", "5"), invalidFor("1")],
      ['{"jsonrpc":"1.0","id":1,"method":"system_chain"}', invalidFor("1")],
      ['{"jsonrpc":"2.0","id":1}', invalidFor("1")],
    ];
    for (const [body, wanted] of bodies) {
      const test = testLedger();
      const { text, costMilliCu, owed } = await exchange(test, body);
      assert.deepEqual([text, costMilliCu, owed], [wanted, 0, 0], String(body));
      assert.equal(test.pool.sent.length, 0, String(body));
    }
  });

  it("is a notification, alone or among others, whatever its method", async () => {
    const silent = [
      '{"jsonrpc":"2.0","method":"system_chain"}',
      '{"jsonrpc":"2.0","method":"author_rotateKeys"}',
    ];
    for (const body of [...silent, `[${silent.join(",")}]`]) {
      const test = testLedger();
      const { text, costMilliCu, owed } = await exchange(test, body);
      assert.deepEqual([text, costMilliCu, owed], [undefined, 0, 0]);
      assert.equal(test.pool.sent.length, 0);
    }
  });
});

describe("a batch", () => {
  it("answers in request order without its notifications, and reserves what may be owed", async () => {
    const test = testLedger();
    const body = `[${[
      request("chain_getHead", "[]", "3"),
      '{"jsonrpc":"2.0","method":"system_chain"}',
      "17",
      request("author_rotateKeys", "[]", "4"),
      request("system_name", "[]", '"n"'),
      request("rpc_methods", "[]", "5").replace('"2.0"', '"1.0"'),
      request("state_call", "[]", "3"),
    ].join(",")}]`;
    const { text, costMilliCu, owed } = await exchange(test, body, (call) => JSON.stringify(call));
    assert.equal(
      text,
      `[${[
        '{"jsonrpc":"2.0","id":3,"result":"chain_getHead []"}',
        invalidFor("null"),
        notAllowedFor("4"),
        '{"jsonrpc":"2.0","id":"n","result":"system_name []"}',
        invalidFor("5"),
        '{"jsonrpc":"2.0","id":3,"result":"state_call []"}',
      ].join(",")}]`,
    );
    assert.deepEqual([costMilliCu, owed], [5200, 5200]);
  });

  it("keeps the order when answers come in another", async () => {
    const { ledger, pool } = testLedger();
    const bodies = [1, 2, 3].map((n) => request("state_getStorage", `["0x0${n}"]`, String(n)));
    const running = ledger.rpc(Buffer.from(`[${bodies.join(",")}]`)).run();
    pool.waiting.reverse();
    for (const result of ["30", "20", "10"]) pool.result(result);
    assert.equal(
      await running,
      '[{"jsonrpc":"2.0","id":1,"result":10},{"jsonrpc":"2.0","id":2,"result":20},{"jsonrpc":"2.0","id":3,"result":30}]',
    );
  });

  it("has at most batchParallel of its calls at the nodes at once", async () => {
    const { ledger, pool } = testLedger({ batchParallel: 3 });
    const bodies = Array.from({ length: 50 }, (_, n) =>
      request("state_getStorage", `["0x${n}"]`, String(n)),
    );
    const running = ledger.rpc(Buffer.from(`[${bodies.join(",")}]`)).run();
    let most = 0;
    for (let n = 0; n < 50; n++) {
      most = Math.max(most, pool.waiting.length);
      pool.result(String(n));
    }
    assert.equal(most, 3);
    const results = JSON.parse(String(await running)) as { id: number; result: number }[];
    assert.deepEqual(
      results.map(({ id, result }) => [id, result]),
      Array.from({ length: 50 }, (_, n) => [n, n]),
    );
  });

  it("lets each call fail separately, and owes for the others", async () => {
    const { ledger, pool } = testLedger();
    const body = `[${request("chain_getHead", "[]", "1")},${request("system_name", "[]", "2")},${request("state_call", "[]", "3")}]`;
    const rpc = ledger.rpc(Buffer.from(body));
    const running = rpc.run();
    pool.result('"0x"');
    pool.fail("timeout");
    pool.error('{"code":1}');
    assert.equal(
      await running,
      `[{"jsonrpc":"2.0","id":1,"result":"0x"},${internalFor("2")},{"jsonrpc":"2.0","id":3,"error":{"code":1}}]`,
    );
    assert.deepEqual(rpc.lines, [
      { method: "chain_getHead", costMilliCu: 100 },
      { method: "state_call", costMilliCu: 5000 },
    ]);
    assert.equal(rpc.failure, undefined);
  });

  it("reports the reason if no node answered any of it", async () => {
    const { ledger, pool } = testLedger();
    const rpc = ledger.rpc(Buffer.from(`[${request("chain_getHead")},${request("nope")}]`));
    const running = rpc.run();
    pool.fail("unreachable");
    assert.equal(await running, `[${internalFor("1")},${notAllowedFor("1")}]`);
    assert.equal(rpc.failure, "unreachable");
  });

  it("charges identical calls separately, but sends them once", async () => {
    const test = testLedger();
    const body = `[${Array.from({ length: 4 }, (_, n) => request("chain_getHead", "[]", String(n))).join(",")}]`;
    const { costMilliCu, owed } = await exchange(test, body);
    assert.deepEqual([costMilliCu, owed, test.pool.sent.length], [400, 400, 1]);
  });

  it("is answered at once if none of it needs a node", async () => {
    const test = testLedger();
    const body = `[${request("state_getStorage", `["0x26aa","${hash(1)}"]`)},${request("nope")}]`;
    await exchange(test, body, () => '"0x01"');
    const again = test.ledger.rpc(Buffer.from(body)).run();
    assert.equal(again, `[{"jsonrpc":"2.0","id":1,"result":"0x01"},${notAllowedFor("1")}]`);
  });

  it("joins large and small answers", async () => {
    const large = `"0x${"ab".repeat(40_000)}é"`;
    const test = testLedger();
    const body = `[${request("chain_getHead")},${request("state_getMetadata", "[]", '"é"')},${request("nope")}]`;
    const { text } = await exchange(test, body, (call) => (call.startsWith("state") ? large : "1"));
    assert.equal(
      text,
      `[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":"é","result":${large}},${notAllowedFor("1")}]`,
    );
  });

  const mebibyte = 1024 * 1024;
  const large = (bytes: number): string => `"0x${"ab".repeat(bytes / 2)}"`;
  const metadata = (count: number): string =>
    `[${Array.from({ length: count }, (_, id) => request("state_getMetadata", `["${hash(id)}"]`, String(id))).join(",")}]`;

  it("asks for nothing more, and owes nothing for it, when the answer has 32 MiB", async () => {
    const test = testLedger({ batchParallel: 1 });
    const { text, owed } = await exchange(test, metadata(20), () => large(3 * mebibyte));
    const answers = JSON.parse(text ?? "") as { result?: string; error?: object }[];
    assert.equal(answers.filter(({ result }) => result !== undefined).length, 10);
    assert.deepEqual(answers[19]?.error, { code: -32603, message: "Internal Error" });
    // The eleventh answer did not fit. The node has done its work, so it is charged.
    assert.equal(test.pool.sent.length, 11);
    assert.equal(owed, 11 * 2000);
    assert.ok(Buffer.byteLength(text ?? "") <= 32 * mebibyte);
  });

  it("shares large cached values between its items instead of copying them", async () => {
    const test = testLedger();
    const one = request("state_getMetadata", `["${hash(1)}"]`);
    await exchange(test, one, () => large(200_000));
    const answer = await test.ledger.rpc(Buffer.from(`[${Array(20).fill(one).join(",")}]`)).run();
    assert.ok(Array.isArray(answer));
    const [, first, , second] = answer as readonly Buffer[];
    assert.equal(first?.length, 200_004);
    assert.equal(first, second);
  });

  it("has at most 4 MiB over WebSocket", async () => {
    const test = testLedger({ batchParallel: 1 });
    const rpc = test.ledger.rpc(Buffer.from(metadata(3)), "websocket");
    const running = rpc.run();
    while (test.pool.waiting.length > 0) test.pool.result(large(3 * mebibyte));
    const answers = JSON.parse(textOf((await running) ?? "")) as { error?: object }[];
    assert.deepEqual(
      answers.map(({ error }) => error !== undefined),
      [false, true, true],
    );
  });

  it("counts the memory of its answers, and asks for nothing more when the caller holds too much", async () => {
    const test = testLedger({ batchParallel: 1 });
    const held = new HeldBytes(8 * mebibyte, createMetrics());
    const other = held.hold("key_1", "answer");
    other.resize(2 * mebibyte);
    const caller = {
      clientLeft: false,
      facts: { caller: { id: "key_1", group: "ws_1", burst: 2, isOperator: false } },
    };
    const rpc = test.ledger.rpc(Buffer.from(metadata(4)));
    const running = rpc.run(caller, held);
    test.pool.result(large(mebibyte));
    assert.ok(held.bytesOf("result") > mebibyte);
    while (test.pool.waiting.length > 0) test.pool.result(large(mebibyte));
    const answers = JSON.parse(textOf((await running) ?? "")) as { error?: object }[];
    assert.deepEqual(
      answers.map(({ error }) => error !== undefined),
      [false, true, true, true],
    );
    assert.equal(test.pool.sent.length, 2);
    assert.equal(held.bytesOf("result"), 0);
  });

  it("begins no further call after its caller has left, and owes for the answered calls", async () => {
    const { ledger, pool } = testLedger({ batchParallel: 1 });
    const caller = { clientLeft: false };
    const rpc = ledger.rpc(Buffer.from(`[${request("chain_getHead")},${request("system_name")}]`));
    const running = rpc.run(caller);
    caller.clientLeft = true;
    pool.result("1");
    assert.equal(await running, `[{"jsonrpc":"2.0","id":1,"result":1},${internalFor("1")}]`);
    assert.deepEqual(rpc.lines, [{ method: "chain_getHead", costMilliCu: 100 }]);
    assert.equal(pool.sent.length, 1);
  });
});
