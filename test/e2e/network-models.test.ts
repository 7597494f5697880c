/**
 * PUT /v1/admin/confidential/{network}/models with a whole gateway: the change is stored, audited and seen by a second
 * gateway.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../plugins/contracts/testing.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";
import { withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.5"
networks:
  classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "10" }
lists: { edge: [request-id, authenticate, rate-limit] }
unmatched: [request-id]
routes:
  - { path: /v1/models, methods: [GET], run: [{ use: edge }], to: models }
  - path: "/admin/{network}/models"
    methods: [PUT]
    run: [{ use: edge }, { authorize: { require: "platform:admin" } }]
    to: network-models
  - { path: "/forgotten/{network}/models", methods: [PUT], run: [{ use: edge }], to: network-models }
`;

interface Listed {
  readonly data: readonly {
    readonly id: string;
    readonly owned_by: string;
    readonly active_workers: number;
    readonly pricing: { readonly prompt_cu_milli: number; readonly completion_cu_milli: number };
  }[];
}

async function put(
  { url }: TestGateway,
  { key }: Pick<TestKey, "key">,
  network: string,
  body: string,
  area = "admin",
): Promise<Response> {
  return fetch(`${url}/${area}/${network}/models`, {
    method: "PUT",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "x-request-id": "change-1",
    },
    body,
  });
}

async function models({ url, key }: TestGateway): Promise<Listed["data"]> {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  // This test checks the shape.
  return ((await response.json()) as Listed).data;
}

describe("network-models", () => {
  it("hides, lists and prices models, and records the change in the audit log", async () => {
    await using worker = await startWorker({ models: ["Acme/One-1", "Acme/Two-1"] });
    await using gateway = await startTestGateway({ pipeline, env: { WORKER_URL: worker.url } });
    const admin = await gateway.issue({ capabilities: ["platform:admin"] });
    const wanted = [
      { id: "Acme/One-1", enabled: true, owned_by: "acme", price_coefficient: 3000 },
      { id: "Acme/Two-1", enabled: false },
      {
        id: "Acme/Later-1",
        enabled: true,
        price_per_token_nano: { prompt: "8", completion: "40" },
      },
    ];

    const response = await put(gateway, admin, "classic", JSON.stringify({ models: wanted }));
    assert.equal(response.status, 200);
    const shown = ((await response.json()) as Listed).data;
    assert.deepEqual(
      shown.map(({ id, owned_by, active_workers, pricing }) => [
        id,
        owned_by,
        active_workers,
        pricing.prompt_cu_milli,
        pricing.completion_cu_milli,
      ]),
      [
        ["Acme/Later-1", "classic", 0, 4, 20],
        ["Acme/One-1", "acme", 1, 15, 15],
      ],
    );
    assert.deepEqual(await models(gateway), shown);

    const change = (
      await withFolderAccounts(`${gateway.folder}/data`, (store) => store.changes())
    ).at(-1);
    assert.equal(change?.action, "network.models");
    assert.equal(change?.actor, admin.keyId);
    assert.equal(change?.requestId, "change-1");

    const undone = await put(gateway, admin, "classic", '{"models":[]}');
    assert.equal(undone.status, 200);
    assert.deepEqual(
      (await models(gateway)).map(({ id }) => id),
      ["Acme/One-1", "Acme/Two-1"],
    );
  });

  it("refuses other keys, unknown networks and invalid bodies, and then changes nothing", async () => {
    await using worker = await startWorker({ models: ["Acme/One-1"] });
    await using gateway = await startTestGateway({ pipeline, env: { WORKER_URL: worker.url } });
    const admin = await gateway.issue({ capabilities: ["platform:admin"] });
    const good = '{"models":[{"id":"Acme/One-1","enabled":false}]}';
    assert.equal((await put(gateway, gateway, "classic", good)).status, 403);
    const keys = [gateway, await gateway.issue({ capabilities: ["workspace:admin"] })];
    for (const key of keys) {
      assert.equal((await put(gateway, key, "classic", good, "forgotten")).status, 403);
    }
    assert.equal((await put(gateway, { key: "" }, "classic", good, "forgotten")).status, 401);
    assert.equal((await put(gateway, admin, "other", good)).status, 404);
    const bad = [
      "{",
      "[]",
      "{}",
      '{"models":{}}',
      '{"models":[1]}',
      '{"models":[{"enabled":true}]}',
      '{"models":[{"id":"","enabled":true}]}',
      '{"models":[{"id":1,"enabled":true}]}',
      '{"models":[{"id":"a"}]}',
      '{"models":[{"id":"a","enabled":"yes"}]}',
      '{"models":[{"id":"a","enabled":true,"owned_by":""}]}',
      '{"models":[{"id":"a","enabled":true,"price_coefficient":-1}]}',
      '{"models":[{"id":"a","enabled":true,"price_coefficient":1.5}]}',
      '{"models":[{"id":"a","enabled":true,"prize_coefficient":1}]}',
      '{"models":[{"id":"a","enabled":true},{"id":"a","enabled":false}]}',
    ];
    for (const body of bad) {
      const response = await put(gateway, admin, "classic", body);
      assert.equal(response.status, 400, body);
      const { error_code: code } = (await response.json()) as { error_code: string };
      assert.equal(code, "GATEWAY_INVALID_PARAMS", body);
    }
    const twice = await put(gateway, admin, "classic", bad.at(-1) ?? "");
    assert.deepEqual(await twice.json(), {
      error: "the body does not match its schema",
      error_code: "GATEWAY_INVALID_PARAMS",
      details: { violations: [{ path: "/body/models/1/id", reason: "is listed twice" }] },
    });
    assert.deepEqual(
      (await models(gateway)).map(({ id }) => id),
      ["Acme/One-1"],
    );
  });
});
