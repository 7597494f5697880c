/** Every 401, 403 and 429 has a reason and the id of its key in the log and in the explanation. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startTestGateway, type TestGateway, type WantedKey } from "sluice-gateway/testing";
import type { Awaitable } from "../../../src/plugin.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}", drainSeconds: 5, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes:
  - path: /docs
    run: [request-id, { access-log: { file: access.log } }, authenticate, { authorize: { require: "docs:read" } }]
    to: openapi
  - path: /limited
    run: [request-id, { access-log: { file: access.log } }, authenticate, { rate-limit: { rps: 0.001, burst: 1 } }]
    to: openapi
`;

interface Case {
  readonly name: string;
  readonly status: number;
  readonly reason: string;
  /** The key, and whether the log names it. */
  readonly key: (gateway: TestGateway) => Awaitable<{
    readonly text: string | undefined;
    readonly id?: string;
  }>;
}

const issued = (wanted: WantedKey) => async (gateway: TestGateway) => {
  const { key: text, keyId: id } = await gateway.issue(wanted);
  return { text, id };
};

const cases: readonly Case[] = [
  { name: "no key", status: 401, reason: "missing", key: () => ({ text: undefined }) },
  { name: "a malformed key", status: 401, reason: "malformed", key: () => ({ text: "abc" }) },
  {
    name: "an unknown key",
    status: 401,
    reason: "unknown",
    key: () => ({ text: `gateway_dev_${"0".repeat(32)}` }),
  },
  {
    name: "a key of another environment",
    status: 401,
    reason: "environment",
    key: () => ({ text: `gateway_prod_${"0".repeat(32)}` }),
  },
  {
    name: "a revoked key",
    status: 401,
    reason: "revoked",
    async key(gateway) {
      const { key: text, keyId: id } = await gateway.issue({});
      await gateway.gateway.use("accounts")?.admin.revokeKey(id, { actor: "test", at: Date.now() });
      return { text, id };
    },
  },
  {
    name: "an expired key",
    status: 401,
    reason: "expired",
    key: issued({ createdAt: 1, expiresAt: Date.now() - 1 }),
  },
  {
    name: "a key that is bound to other addresses",
    status: 403,
    reason: "address",
    key: issued({ allowedAddresses: ["10.0.0.0/8"] }),
  },
  {
    name: "a key without the capability",
    status: 403,
    reason: "capability docs:read",
    key: issued({ capabilities: ["inference"] }),
  },
];

async function ask(
  gateway: TestGateway,
  key: string | undefined,
  id: string,
  path = "/docs",
): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    headers: { "x-request-id": id, ...(key !== undefined && { authorization: `Bearer ${key}` }) },
  });
}

async function explanation(gateway: TestGateway, id: string): Promise<Record<string, unknown>> {
  const found = await fetch(`${gateway.adminUrl}/explain?id=${id}`);
  const { exchanges } = (await found.json()) as { exchanges: Record<string, unknown>[] };
  return exchanges[0] ?? {};
}

/** Stops the gateway, and returns the lines of all requests by their ids. */
async function linesOf(gateway: TestGateway): Promise<Map<unknown, Record<string, unknown>>> {
  await gateway.gateway.stop();
  const text = readFileSync(join(gateway.folder, "access.log"), "utf8").trim();
  const lines = text.split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
  return new Map(lines.map((line) => [line["requestId"], line]));
}

test("every refusal has its reason and the id of its key, for operators", async () => {
  await using gateway = await startTestGateway({ pipeline });
  type Expected = readonly [reason: string, id: string | undefined, text: string | undefined];
  const refused = new Map<string, Expected>();
  for (const { name, status, reason, key } of cases) {
    const { text, id } = await key(gateway);
    const requestId = name.replaceAll(" ", "-");
    assert.equal((await ask(gateway, text, requestId)).status, status, name);
    const explained = await explanation(gateway, requestId);
    assert.deepEqual([explained["reason"], explained["key_id"]], [reason, id], name);
    if (text !== undefined) assert.ok(!JSON.stringify(explained).includes(text));
    refused.set(requestId, [reason, id, text]);
  }
  await ask(gateway, gateway.key, "first", "/limited");
  assert.equal((await ask(gateway, gateway.key, "second", "/limited")).status, 429);
  const explained = await explanation(gateway, "second");
  assert.deepEqual([explained["reason"], explained["key_id"]], ["key", gateway.keyId]);
  refused.set("second", ["key", gateway.keyId, gateway.key]);
  const lines = await linesOf(gateway);
  for (const [requestId, [reason, id, text]] of refused) {
    const line = lines.get(requestId) ?? {};
    assert.deepEqual([line["reason"], line["keyId"]], [reason, id], requestId);
    if (text !== undefined) assert.ok(!JSON.stringify(line).includes(text));
  }
});

test("a client without the capability learns its name", async () => {
  await using gateway = await startTestGateway({ pipeline });
  const { key } = await gateway.issue({ capabilities: ["inference"] });
  const body: unknown = await (await ask(gateway, key, "r1")).json();
  assert.deepEqual(body, {
    error: "permission denied",
    error_code: "GATEWAY_PERMISSION_DENIED",
    details: { capability: "docs:read" },
  });
});
