/** The official clients with `/mcp`: both SDKs in each of their modes, and the Inspector with its strictest checks. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import type { TestGateway } from "../../plugins/contracts/testing.ts";
import { startMcpGateway, type Parsed } from "./mcp-gateway.ts";

let gateway: TestGateway;
before(async () => {
  gateway = await startMcpGateway({ account: { capabilities: ["ledger:write", "docs:read"] } });
});
after(() => gateway[Symbol.asyncDispose]());

const endpoint = (): URL => new URL(`${gateway.url}/mcp`);
const withKey = (): { requestInit: RequestInit } => ({
  requestInit: { headers: { authorization: `Bearer ${gateway.key}` } },
});
const info = { name: "test", version: "1" };

interface Client {
  listTools(): Promise<{ tools: readonly { name: string }[] }>;
  callTool(params: object, ...rest: Parsed[]): Promise<Parsed>;
  listResources(): Promise<{ resources: readonly { uri: string }[] }>;
  readResource(params: { uri: string }): Promise<{ contents: readonly object[] }>;
}

/** Runs the same requests with every client. `progress` makes calls with a listener for progress. */
async function round(
  client: Client,
  progress: (params: object, onprogress: (event: { progress: number }) => void) => Promise<Parsed>,
): Promise<void> {
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === "echo"));
  const result = await client.callTool({ name: "echo", arguments: { text: "hi" } });
  assert.equal(result.content[0].text, '{"text":"hi"}');
  assert.equal(result._meta.usedCUMilli, 100);
  assert.equal(result._meta.toolName, "echo");
  const failed = await client.callTool({ name: "echo", arguments: {} });
  assert.equal(failed.isError, true);
  assert.equal(failed._meta.errorCode, "GATEWAY_SCHEMA_VIOLATION");
  // The clients check the result against the output schema.
  const measured = await client.callTool({ name: "measure", arguments: {} });
  assert.deepEqual(measured.structuredContent, { celsius: 21.5 });
  assert.equal(measured.content[0].text, '{\n  "celsius": 21.5\n}');
  const wrong = await client.callTool({ name: "measure", arguments: { wrong: true } });
  assert.equal(wrong._meta.errorCode, "GATEWAY_INTERNAL_ERROR");
  const linked = await client.callTool({ name: "linked", arguments: {} });
  assert.equal(linked.content[1].type, "resource_link");
  const seen: number[] = [];
  await progress({ name: "counts", arguments: {} }, (event) => seen.push(event.progress));
  assert.deepEqual(seen, [1, 2, 3]);
  const { resources } = await client.listResources();
  assert.equal(resources[0]?.uri, "doc://guide");
  const { contents } = await client.readResource({ uri: "doc://guide" });
  assert.equal(contents.length, 1);
}

test("SDK v1 (2025-11-25) opens a session, uses tools, progress and documents, and ends the session", async () => {
  const transport = new TransportV1(endpoint(), withKey());
  const client = new ClientV1(info);
  await client.connect(transport);
  const session = transport.sessionId;
  assert.ok(session);
  await round(client, (params, onprogress) =>
    client.callTool(params as never, undefined, { onprogress }),
  );
  await client.ping();
  await transport.terminateSession();
  await client.close();
  const answer = await fetch(endpoint(), {
    method: "POST",
    headers: {
      ...(withKey().requestInit.headers as Record<string, string>),
      "content-type": "application/json",
      "mcp-session-id": session,
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
  });
  assert.equal(answer.status, 404);
});

const modes = [
  ["legacy", "legacy", "2025-11-25"],
  ["auto", "auto", "2026-07-28"],
  ["pinned", { pin: "2026-07-28" }, "2026-07-28"],
] as const;
for (const [name, mode, revision] of modes) {
  test(`SDK v2, ${name}: agrees on ${revision} and uses tools, progress and documents`, async () => {
    const client = new ClientV2(info, { versionNegotiation: { mode } });
    await client.connect(new TransportV2(endpoint(), withKey()));
    assert.equal(client.getNegotiatedProtocolVersion(), revision);
    await round(client, (params, onprogress) => client.callTool(params as never, { onprogress }));
    await client.close();
  });
}

for (const [action, ending] of [
  ["accept", "write"],
  ["decline", "GATEWAY_PERMISSION_DENIED"],
  ["cancel", "GATEWAY_CONFIRMATION_REQUIRED"],
] as const) {
  const answer = action === "accept" ? { action, content: { confirm: true } } : { action };
  const asked = (questions: readonly string[], { _meta: meta }: Parsed): void => {
    assert.equal(questions.length, 1);
    assert.match(questions[0] ?? "", /Alice/);
    assert.equal(meta.errorCode ?? meta.toolName, ending);
  };
  const call = { name: "write", arguments: { to: "Alice" } };
  const capabilities = { elicitation: {} };

  for (const mode of [{ pin: "2026-07-28" }, "legacy"] as const) {
    test(`SDK v2, ${JSON.stringify(mode)}, asks its user before a write: ${action}`, async () => {
      const client = new ClientV2(info, { versionNegotiation: { mode }, capabilities });
      const questions: string[] = [];
      client.setRequestHandler("elicitation/create", (request) => {
        questions.push(request.params.message);
        return answer;
      });
      await client.connect(new TransportV2(endpoint(), withKey()));
      asked(questions, await client.callTool(call));
      await client.close();
    });
  }

  test(`SDK v1 asks its user before a write: ${action}`, async () => {
    const client = new ClientV1(info, { capabilities });
    const questions: string[] = [];
    client.setRequestHandler(ElicitRequestSchema, (request) => {
      questions.push(request.params.message);
      return answer;
    });
    await client.connect(new TransportV1(endpoint(), withKey()));
    asked(questions, await client.callTool(call));
    await client.close();
  });
}

test("the Inspector lists the tools with strict checks, and calls one", async () => {
  const home = await mkdtemp(join(tmpdir(), "sluice-inspector-"));
  try {
    const listed = await inspect(home, "--method", "tools/list", "--strict");
    assert.equal(listed.code, 0, listed.output);
    assert.match(listed.output, /"echo"/);
    const call = ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hi"];
    const called = await inspect(home, ...call);
    assert.equal(called.code, 0, called.output);
    assert.match(called.output, /usedCUMilli/);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});

async function inspect(home: string, ...args: string[]): Promise<{ code: number; output: string }> {
  const launcher = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
  const main = fileURLToPath(import.meta.resolve(launcher));
  const target = [endpoint().href, "--transport", "http"];
  const key = ["--header", `Authorization: Bearer ${gateway.key}`];
  const child = spawn(process.execPath, [main, "--cli", ...target, ...args, ...key], {
    env: { ...process.env, HOME: home },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  }
  const code = await new Promise<number>((resolve) => child.on("close", resolve));
  return { code, output };
}
