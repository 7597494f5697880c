/** PUT /v1/admin/confidential/{network}/models: a change is stored, audited and seen by a second gateway. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../plugins/contracts/testing.ts";
import { ask, type Answer } from "./ask.ts";
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
  - { path: /openapi.json, methods: [GET], run: [request-id], to: openapi }
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

/** `body`: text that is sent unchanged, or a value that is sent as JSON. */
function put(
  { url }: TestGateway,
  { key }: Pick<TestKey, "key">,
  network: string,
  body: unknown,
  area = "admin",
): Promise<Answer> {
  const headers = { "x-request-id": "change-1" };
  return ask(`${url}/${area}/${network}/models`, { method: "PUT", key, headers, body });
}

async function models({ url, key }: TestGateway): Promise<Listed["data"]> {
  return (await ask(`${url}/v1/models`, { key })).json.data;
}

async function documentedBody({ url }: TestGateway): Promise<(body: unknown) => boolean> {
  const { json: document } = await ask(`${url}/openapi.json`);
  const $ref = `document#/paths/~1admin~1{network}~1models/put/requestBody/content/application~1json/schema`;
  const ajv = new Ajv2020({ strict: false }).addSchema({ ...document, $id: "document" });
  return ajv.compile({ $ref });
}

interface Refusal {
  readonly error_code: string;
  readonly details?: { readonly violations: readonly { readonly path: string }[] };
}

const entry = (more: object): object => ({ models: [{ id: "A/1", enabled: true, ...more }] });
const ids = (...all: readonly string[]): object => ({
  models: all.map((id) => ({ id, enabled: true })),
});
const many = (count: number): object => ids(...Array.from({ length: count }, (_, n) => String(n)));

/** Bodies, and the position that their refusal names. */
const refused: readonly [body: string | object, path?: string][] = [
  ["{"],
  ["[]", "/body"],
  [{}, "/body"],
  [{ models: {} }, "/body/models"],
  [{ models: [1] }, "/body/models/0"],
  [{ models: [{ enabled: true }] }, "/body/models/0"],
  [{ models: [{ id: "a" }] }, "/body/models/0"],
  [entry({ prize_coefficient: 1 }), "/body/models/0"],
  [entry({ enabled: "yes" }), "/body/models/0/enabled"],
  [entry({ owned_by: "" }), "/body/models/0/owned_by"],
  ...["", "x".repeat(257), "\ud800", "a\udfffb", "\0", "a\nb", "a\x1b[31m", "a\x7f", 1].map(
    (id): [object, string] => [entry({ id }), "/body/models/0/id"],
  ),
  ...[-1, 1.5, 1_000_001, "1", null, 1e300].map((price_coefficient): [object, string] => [
    entry({ price_coefficient }),
    "/body/models/0/price_coefficient",
  ]),
  ...[-1, "x", null, {}, 1e10, { prompt: 1 }, { prompt: 1, completion: "x" }].map(
    (price): [object, string] => [
      entry({ price_per_token_nano: price }),
      "/body/models/0/price_per_token_nano",
    ],
  ),
  [many(10_001), "/body/models"],
  [ids("A/1", "B/2", "A/1"), "/body/models/2/id"],
];
const accepted: readonly object[] = [
  ids("x".repeat(256), "Acme/Große-1", "模型", "🦙", "a b"),
  // Members of Object.prototype.
  ids("A/1", "__proto__", "constructor"),
  entry({ price_coefficient: 1_000_000 }),
  entry({ price_coefficient: 0 }),
];

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
      { id: "Acme/Plain-1", enabled: true, price_per_token_nano: 16 },
    ];

    const response = await put(gateway, admin, "classic", { models: wanted });
    assert.equal(response.status, 200);
    const shown: Listed["data"] = response.json.data;
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
        ["Acme/Plain-1", "classic", 0, 8, 8],
      ],
    );
    assert.deepEqual(await models(gateway), shown);

    const change = (
      await withFolderAccounts(`${gateway.folder}/data`, (store) => store.changes())
    ).at(-1);
    assert.equal(change?.action, "network.models");
    assert.equal(change?.actor, admin.keyId);
    assert.equal(change?.requestId, "change-1");

    assert.equal((await put(gateway, admin, "classic", { models: [] })).status, 200);
    assert.deepEqual(
      (await models(gateway)).map(({ id }) => id),
      ["Acme/One-1", "Acme/Two-1"],
    );
  });

  it("refuses other keys, unknown networks and invalid bodies, and then changes nothing", async () => {
    await using worker = await startWorker({ models: ["Acme/One-1"] });
    await using gateway = await startTestGateway({ pipeline, env: { WORKER_URL: worker.url } });
    const admin = await gateway.issue({ capabilities: ["platform:admin"] });
    const good = { models: [{ id: "Acme/One-1", enabled: false }] };
    assert.equal((await put(gateway, gateway, "classic", good)).status, 403);
    const keys = [gateway, await gateway.issue({ capabilities: ["workspace:admin"] })];
    for (const key of keys) {
      assert.equal((await put(gateway, key, "classic", good, "forgotten")).status, 403);
    }
    assert.equal((await put(gateway, { key: "" }, "classic", good, "forgotten")).status, 401);
    assert.equal((await put(gateway, admin, "other", good)).status, 404);
    for (const [body, path] of refused) {
      const text = JSON.stringify(body);
      const { status, json } = await put(gateway, admin, "classic", body);
      assert.equal(status, 400, text);
      const { error_code: code, details } = json as Refusal;
      assert.equal(code, "GATEWAY_INVALID_PARAMS", text);
      const paths = details?.violations.map((violation) => violation.path);
      assert.deepEqual(paths, path === undefined ? undefined : [path], text);
    }
    const twice = await put(gateway, admin, "classic", ids("a", "a"));
    assert.deepEqual(twice.json, {
      error: "the body does not match its schema",
      error_code: "GATEWAY_INVALID_PARAMS",
      details: { violations: [{ path: "/body/models/1/id", reason: "is listed twice" }] },
    });
    assert.deepEqual(
      (await models(gateway)).map(({ id }) => id),
      ["Acme/One-1"],
    );
    const isDocumented = await documentedBody(gateway);
    for (const all of [...accepted, many(10_000)]) {
      assert.ok(isDocumented(all));
      assert.equal((await put(gateway, admin, "classic", all)).status, 200);
    }
    // The schema expresses neither the ranges of decimals nor that an id may occur once.
    assert.equal(refused.filter(([body]) => isDocumented(body)).length, 5);
  });
});
