/** `/rpc` with many calls at once, on a test catalogue; and the document at `/.well-known/mcp`. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Tool } from "sluice-gateway/services";
import { testSurface, type TestAnswer } from "../../../plugins/contracts/testing.ts";
import toolRpc from "../../../plugins/tools/tool-rpc/index.ts";
import { keyPrincipal, missing, unknownKey } from "../fakes.ts";
import { bench, fakeCharge, settled, tool } from "./tool-catalogue/fixture.ts";
import discovery from "../../../plugins/tools/discovery/index.ts";
import { version } from "../../../src/base/version.ts";

async function answerOf(
  one: Tool<never>,
  bodies: string | readonly string[],
  slots: object = {},
): Promise<TestAnswer> {
  const { catalogue } = await bench(one);
  await using rpc = await testSurface(toolRpc, {
    services: { "tool-catalogue": catalogue },
    slots: { principal: keyPrincipal(), charge: fakeCharge(), ...slots },
  });
  let answer: TestAnswer | undefined;
  for (const body of [bodies].flat()) {
    answer = await rpc.send({ body, headers: { "content-type": "application/json" } });
  }
  assert(answer !== undefined);
  return answer;
}

const call = (id: number, name = "wait"): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools.call","params":{"tool":"${name}","params":{"n":${id}}}}`;
const arrayOf = (n: number, name?: string): string =>
  `[${Array.from({ length: n }, (_, id) => call(id, name)).join(",")}]`;

describe("the calls of an array", () => {
  it("run four at a time, and are answered in order, whatever order they end in", async () => {
    const waiting: { n: number; end: () => void }[] = [];
    let most = 0;
    const wait = tool({
      name: "wait",
      call({ n }: { n: number }) {
        const { promise, resolve } = Promise.withResolvers<{ ok: true; value: number }>();
        waiting.push({ n, end: () => resolve({ ok: true, value: n }) });
        most = Math.max(most, waiting.length);
        return promise;
      },
    });
    const answering = answerOf(wait, arrayOf(20));
    let ended = 0;
    while (ended < 20) {
      await settled();
      const last = waiting.length === Math.min(4, 20 - ended) ? waiting.pop() : undefined;
      if (last === undefined) continue;
      last.end();
      ended++;
    }
    const answers = (await answering).json() as {
      id: number;
      result: { content: number };
    }[];
    assert.deepEqual(
      answers.map(({ id, result }) => [id, result.content]),
      Array.from({ length: 20 }, (_, n) => [n, n]),
    );
    assert.equal(most, 4);
  });

  it("are not begun once the answers are too large; notifications are not answered", async () => {
    let begun = 0;
    const json = `"${"x".repeat(30 * 1024 * 1024)}"`;
    const large = tool({
      name: "large",
      call() {
        begun++;
        return { ok: true, json };
      },
    });
    const notification = '{"jsonrpc":"2.0","method":"tools.call","params":{"tool":"large"}}';
    const body = `${arrayOf(16, "large").slice(0, -1)},${notification},7]`;
    const reply = await answerOf(large, body);
    // One fills the response. How many of the four running calls had begun their next one depends on the event loop.
    assert.ok(begun >= 4 && begun <= 6, String(begun));
    const tail = reply.body.slice(-4000);
    assert.match(
      tail,
      /"id":15,"error":\{"code":-32603,"message":"not run: the responses of this array/,
    );
    assert.match(tail, /"id":3,"error":\{"code":-32603,"message":"the responses are too large/);
    assert.ok(reply.body.length <= 32 * 1024 * 1024);
    assert.ok(
      tail.endsWith(
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}]',
      ),
    );
  });
});

describe("tool-rpc", () => {
  it("reads params correctly, whatever members the params of other callers had", async () => {
    const read = tool({
      name: "read",
      inputSchema: { type: "object" },
      call: (input: object) => ({ ok: true, value: input }),
    });
    const params = (text: string): string =>
      `{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"tool":"read",${text}}}`;
    const bodies = [String.raw`"\\u0070":{}`, String.raw`"\u0070arams":{"n":1}`].map(params);
    const { result } = (await answerOf(read, bodies)).json() as { result: { content: unknown } };
    assert.deepEqual(result.content, { n: 1 });
  });

  it("refuses anonymous callers, even if no step above has", async () => {
    for (const principal of [missing, unknownKey]) {
      const reply = await answerOf(tool(), call(1, "echo"), { principal });
      assert.deepEqual([reply.status, reply.code], [401, "GATEWAY_UNAUTHORIZED"]);
    }
  });
});

type Options = Partial<Parameters<typeof discovery.start>[0]>;

async function documentOf(
  tools: readonly Tool<never>[],
  options: Options = {},
): Promise<Record<string, unknown>> {
  const { catalogue } = await bench(...tools);
  const services = { "tool-catalogue": catalogue };
  await using surface = await testSurface(discovery, { options, services });
  return (await surface.send()).json() as Record<string, unknown>;
}

describe("the discovery document", () => {
  it("has exactly the specified members, and tools without their schemas", async () => {
    const tools = [
      tool({ capability: "docs:read", annotations: { title: "Echo" } }),
      tool({ name: "gateway_batch", price: { estimateMilliCu: 0, of: () => 0 } }),
    ];
    assert.deepEqual(await documentOf(tools), {
      name: "sluice",
      version,
      description:
        "A gateway to a Substrate node and a confidential inference network, metered in credit units.",
      mcpEndpoint: "/mcp",
      rpcEndpoint: "/rpc",
      auth: { type: "bearer", header: "Authorization" },
      tools: [
        {
          name: "echo",
          description: "Answers its input.",
          estimatedCUMilli: 100,
          estimatedCUVaries: false,
        },
        {
          name: "gateway_batch",
          description: "Answers its input.",
          estimatedCUMilli: 0,
          estimatedCUVaries: true,
        },
      ],
      capabilities: ["tools", "batch", "agent-tracking"],
      protocolVersions: ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
    });
  });

  it("lists no batch capability without gateway_batch, and takes its names from the options", async () => {
    const options = { name: "acme", description: "Ours.", mcp: "/agents", rpc: "/tools" };
    const document = await documentOf([], options);
    assert.deepEqual(
      [
        document["capabilities"],
        document["tools"],
        document["name"],
        document["description"],
        document["mcpEndpoint"],
        document["rpcEndpoint"],
      ],
      [["tools", "agent-tracking"], [], "acme", "Ours.", "/agents", "/tools"],
    );
  });
});
