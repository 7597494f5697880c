/**
 * Billing in a whole gateway: every 401, 403 and 429 has its error for the client, and a reason and the id of its key in
 * the log and the explanation; reloads of the services, and the dry run of `sluice check`.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type TestGateway, type WantedKey, startTestGateway } from "sluice-gateway/testing";
import { checkFile } from "../../../src/pipeline/load/check-file.ts";
import { dryRun } from "../../../src/pipeline/load/dry-run.ts";
import type { Awaitable } from "../../../src/plugin.ts";
import { temporaryFolder } from "../../store/folder.ts";

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

interface Refusal {
  readonly error: string;
  readonly error_code: string;
  readonly details?: unknown;
}

/** Makes a key. Returns its text, and its id if the log names it. */
type MakeKey = (
  gateway: TestGateway,
) => Awaitable<{ readonly text?: string; readonly id?: string }>;

const given =
  (text?: string): MakeKey =>
  () =>
    text === undefined ? {} : { text };
const issued =
  (wanted: WantedKey): MakeKey =>
  async (gateway) => {
    const { key: text, keyId: id } = await gateway.issue(wanted);
    return { text, id };
  };
const revoked: MakeKey = async (gateway) => {
  const { key: text, keyId: id } = await gateway.issue({});
  await gateway.gateway.use("accounts")?.admin.revokeKey(id, { actor: "test", at: Date.now() });
  return { text, id };
};
const expired = issued({ createdAt: 1, expiresAt: Date.now() - 1 });
const elsewhere = issued({ allowedAddresses: ["10.0.0.0/8"] });
const notAllowed = "api key not allowed from this address";

/** The fault of the request, the status, the reason for operators, the error for the client, and the key. */
const cases: readonly (readonly [string, number, string, string, MakeKey])[] = [
  ["no key", 401, "missing", "missing authorization header", given()],
  ["a malformed key", 401, "malformed", "invalid authorization format", given("abc")],
  ["an unknown key", 401, "unknown", "unauthorized", given(`gateway_dev_${"0".repeat(32)}`)],
  [
    "another environment",
    401,
    "environment",
    "unauthorized",
    given(`gateway_prod_${"0".repeat(32)}`),
  ],
  ["a revoked key", 401, "revoked", "unauthorized", revoked],
  ["an expired key", 401, "expired", "api key has expired", expired],
  ["a key that is bound to other addresses", 403, "address", notAllowed, elsewhere],
  [
    "a key without the capability",
    403,
    "capability docs:read",
    "permission denied",
    issued({ capabilities: ["inference"] }),
  ],
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

async function linesOf(gateway: TestGateway): Promise<Map<unknown, Record<string, unknown>>> {
  await gateway.gateway.stop();
  const text = readFileSync(join(gateway.folder, "access.log"), "utf8").trim();
  const lines = text.split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
  return new Map(lines.map((line) => [line["requestId"], line]));
}

test("every refusal has its error, and its reason and the id of its key for operators", async () => {
  await using gateway = await startTestGateway({ pipeline });
  type Expected = readonly [reason: string, id: string | undefined, text: string | undefined];
  const refused = new Map<string, Expected>();
  for (const [name, status, reason, error, key] of cases) {
    const { text, id } = await key(gateway);
    const requestId = name.replaceAll(" ", "-");
    const answer = await ask(gateway, text, requestId);
    const { error: said, error_code: code, details } = (await answer.json()) as Refusal;
    const expected = status === 401 ? "GATEWAY_UNAUTHORIZED" : "GATEWAY_PERMISSION_DENIED";
    assert.deepEqual([answer.status, said, code], [status, error, expected], name);
    const capability = reason === "capability docs:read" ? "docs:read" : undefined;
    assert.deepEqual(details, capability && { capability }, name);
    const realm = status === 401 ? 'Bearer realm="gateway"' : null;
    assert.equal(answer.headers.get("www-authenticate"), realm);
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

const withPlans = (plans: string, more = ""): string => `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: ${plans} } }
routes:
  - { path: /x, run: [authenticate, { authorize: { require: key } }], to: discovery }
${more}`;

const broken = `export default {
  kind: "surface",
  name: "broken",
  description: "Does not start.",
  start() {
    throw new Error("broken");
  },
};
`;

test("a reload gives the running service its new plans, and a reload that fails does not", async () => {
  const prepare = (folder: string): void => writeFileSync(join(folder, "broken.js"), broken);
  await using t = await startTestGateway({ pipeline: withPlans("5"), prepare });
  const accounts = t.gateway.use("accounts");
  assert.ok(accounts !== undefined);
  const rps = async (): Promise<number> => {
    const caller = await accounts.identify(`Bearer ${t.key}`);
    assert.equal(caller.kind, "key");
    return caller.kind === "key" ? caller.rps : 0;
  };
  assert.equal(await rps(), 5);
  const metering = t.gateway.use("metering");
  // The file is valid, and the failure comes after the services have started.
  const plugins = "plugins: { broken: ./broken.js }\n";
  await t.write(withPlans("6", `  - { path: /y, to: broken }\n${plugins}`));
  const faults = await t.gateway.reloader.reload("test");
  assert.deepEqual(
    faults.map(({ code }) => code),
    ["SLUICE_PLUGIN_START"],
  );
  assert.equal(await rps(), 5);
  await t.write(withPlans("7"));
  assert.deepEqual(await t.gateway.reloader.reload("test"), []);
  assert.equal(await rps(), 7);
  assert.equal(t.gateway.use("accounts"), accounts);
  assert.equal(t.gateway.use("metering"), metering);
});

test("a check opens no database", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, withPlans("5"));
  const env = { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") };
  const { faults } = await dryRun(await checkFile(file, env), env);
  assert.deepEqual(faults, []);
  assert.equal(existsSync(join(folder, "data")), false);
});
