/** Sessions whose requests reach different gateways, each in a process of its own, on one PostgreSQL. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { sluice, spawnGateway, type GatewayProcess } from "../../../e2e/gateway-process.ts";
import { ask, mcpPipeline, mcpTools } from "../../../e2e/mcp-gateway.ts";
import { createUpgradedDatabase } from "../../../store/upgraded-database.ts";
import { until } from "../../billing/shipping/fixture.ts";
import { streamedCall } from "./streamed-call.ts";

interface Replica {
  readonly url: string;
  readonly key: string;
}

const folder = mkdtempSync(join(tmpdir(), "sluice-mcp-"));
const secret = "a secret of these gateways";
const processes: GatewayProcess[] = [];
let one: Replica;
let two: Replica;
let other: string;

before(async () => {
  const url = await createUpgradedDatabase({ after }, secret);
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, mcpPipeline("{}", mcpTools));
  const env = (name: string): Record<string, string> => ({
    DATABASE_URL: url,
    GATEWAY_SECRET: secret,
    DATA_DIR: join(folder, name),
    REPLICA_NAME: name,
  });
  const run = (...args: string[]): { id: string; key: string } =>
    JSON.parse(sluice([...args, "--config", file, "--json"], env("command")));
  const { id } = run("workspaces", "create", "--name", "t", "--plan", "enterprise");
  const createKey = (): string =>
    run("keys", "create", "--workspace", id, "--capability", "ledger:write").key;
  const key = createKey();
  other = createKey();
  for (const name of ["one", "two"]) processes.push(await spawnGateway(file, env(name)));
  [one, two] = processes.map((gateway) => ({ url: gateway.url, key })) as [Replica, Replica];
});
after(async () => {
  for (const { child } of processes) child.kill("SIGKILL");
  await Promise.all(processes.map(({ exited }) => exited));
  rmSync(folder, { recursive: true, force: true });
});

const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });

async function begin(replica: Replica): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} } };
  const { headers } = await ask(replica, { body: rpc("initialize", params) });
  return String(headers["mcp-session-id"]);
}

const inSession = (id: string): Record<string, string> => ({ "mcp-session-id": id });

test("an answer to a question reaches the call on the other gateway", async () => {
  const session = await begin(two);
  const { messages } = streamedCall(one, session, "write", { to: "Alice" });
  const { value: question } = await messages.next();
  assert.equal(question.method, "elicitation/create");
  const result = { action: "accept", content: { confirm: true } };
  const body = { jsonrpc: "2.0", id: question.id, result };
  const madeUp = { ...body, id: "made up" };
  assert.equal((await ask(two, { body: madeUp, headers: inSession(session) })).status, 202);
  const declined = { ...body, result: { action: "decline" } };
  assert.equal((await ask(two, { body: declined, key: other })).status, 202, "it has no effect");
  assert.equal((await ask(two, { body, headers: inSession(session) })).status, 202);
  const { value: answer } = await messages.next();
  const { isError, _meta: meta } = answer.result;
  assert.deepEqual([isError, meta.toolName, meta.usedCUMilli], [undefined, "write", 1000]);
});

test("a cancellation ends the question of the call on the other gateway", async () => {
  const session = await begin(one);
  const { messages } = streamedCall(one, session, "write", { to: "Bob" });
  await messages.next();
  const body = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } };
  assert.equal((await ask(two, { body, headers: inSession(session) })).status, 202);
  const { value: answer } = await messages.next();
  assert.equal(answer.result._meta.errorCode, "GATEWAY_CONFIRMATION_REQUIRED");
});

test("the log level of a session applies on the other gateway", async () => {
  const session = await begin(one);
  const set = await ask(one, {
    body: rpc("logging/setLevel", { level: "error" }),
    headers: inSession(session),
  });
  assert.deepEqual(set.json.result, {});
  await until(async () => {
    const { value: first } = await streamedCall(two, session, "logs", {}).messages.next();
    return first?.method === "notifications/message" && first.params.level === "error";
  });
});

test("a session that is ended on one gateway ends on the other one", async () => {
  const session = await begin(one);
  const ping = async (): Promise<number> =>
    (await ask(two, { body: rpc("ping", {}), headers: inSession(session) })).status;
  assert.equal(await ping(), 200);
  assert.equal((await ask(one, { method: "DELETE", headers: inSession(session) })).status, 204);
  await until(async () => (await ping()) === 404);
});
