/** Tests of the surface `workspaces`, started alone with a stand-in for the service `accounts`. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import * as fc from "fast-check";
import type { Capability, Principal, Workspaces } from "sluice-gateway/services";
import { testSurface, type TestAnswer } from "sluice-gateway/testing";
import workspaces from "../../../plugins/billing/workspaces/index.ts";
import { fakeAccounts, keyPrincipal, missing } from "../fakes.ts";

type Do = Parameters<typeof workspaces.start>[0]["do"];

const shown = {
  id: "ws_1",
  name: "Acme",
  plan: "startup",
  purchased_cu_milli: 5,
  created_at: "2026-01-15T12:00:00.000Z",
} as const;
const done = { kind: "done", value: shown } as const;
const purchase = { purchase_id: "pur_1", amount_cu_milli: 5, workspace: shown };
type Answers = Readonly<Partial<Record<keyof Workspaces, unknown>>>;
const answers: Answers = {
  find: done,
  upgrade: done,
  downgrade: done,
  cancelDowngrade: done,
  purchase: { kind: "done", value: purchase },
  changes: { kind: "done", value: [] },
  usage: { kind: "done", value: Buffer.from("{}") },
};

interface Asked {
  readonly reply: TestAnswer;
  readonly calls: readonly (readonly unknown[])[];
}

const next = { calls: [] as unknown[][], answers };
const slots = { requestId: "req-1", principal: missing };
// It has each member of the service.
const service = new Proxy({} as Workspaces, {
  get:
    (_, name: keyof Workspaces) =>
    (...args: readonly unknown[]) => {
      next.calls.push([name, ...args]);
      const answer = next.answers[name];
      return Promise.resolve(typeof answer === "function" ? answer(...args) : answer);
    },
});
const start = (wanted: Do) =>
  testSurface(workspaces, {
    options: { do: wanted },
    path: "/{id}",
    slots,
    services: { accounts: fakeAccounts({ workspaces: service }) },
  });
const started = new Map<Do, Awaited<ReturnType<typeof start>>>();
after(() => Promise.all([...started.values()].map((each) => each[Symbol.asyncDispose]())));

async function ask(
  wanted: Do,
  options: {
    id?: string;
    capabilities?: readonly Capability[];
    body?: string;
    query?: string;
    principal?: Principal;
    answers?: Answers;
  } = {},
): Promise<Asked> {
  const { id = "ws_1", capabilities = ["workspace:admin"], body, query = "" } = options;
  Object.assign(next, { calls: [], answers: { ...answers, ...options.answers } });
  slots.principal = options.principal ?? keyPrincipal({ id: "key_1", capabilities });
  const surface = started.get(wanted) ?? (await start(wanted));
  started.set(wanted, surface);
  const headers = { "content-type": "application/json" };
  const sent = body === undefined ? {} : { body, headers };
  const reply = await surface.send({ path: `/${id}?${query}`, ...sent });
  return { reply, calls: next.calls };
}

const bodyOf = (reply: TestAnswer) => JSON.parse(reply.body) as Record<string, unknown>;

const by = { actor: "key_1", requestId: "req-1" };

test("the workspace of another customer gets 404, except for platform:admin", async () => {
  for (const wanted of ["show", "usage", "audit", "cancel-downgrade"] as const) {
    const stranger = await ask(wanted, { id: "ws_2" });
    assert.equal(stranger.reply.status, 404, wanted);
    assert.equal(bodyOf(stranger.reply)["error_code"], "GATEWAY_NOT_FOUND");
    assert.deepEqual(stranger.calls, []);
    const admin = await ask(wanted, { id: "ws_2", capabilities: ["platform:admin"] });
    assert.equal(admin.reply.status, 200, wanted);
    assert.equal(admin.calls[0]?.[1], "ws_2");
  }
});

test("a route without authorize refuses all requests", async () => {
  for (const wanted of ["show", "cancel-downgrade"] as const) {
    const { reply, calls } = await ask(wanted, { capabilities: ["inference", "ledger:write"] });
    assert.equal(reply.status, 403, wanted);
    assert.deepEqual(calls, []);
    assert.equal((await ask(wanted, { principal: missing })).reply.status, 401, wanted);
  }
});

const malformed = ["", "{", "plan=startup", "{}{}"];
const plans =
  '[] | null | "startup" | {} | {"plan":"gold"} | {"plan":null} | {"plan":["startup"]} | {"plan":"startup","plans":1}';
const amounts =
  '0 | -5 | 1.5 | "5" | true | 1e300 | 1e400 | 9007199254740992 | 9007199254740993 | 5,"currency":"USD"';
const wrong: Readonly<Record<string, readonly string[]>> = {
  upgrade: plans.split(" | "),
  downgrade: plans.split(" | "),
  "cancel-downgrade": ["[]", "null", "0", '{"plan":"free"}'],
  purchase: ["{}", ...amounts.split(" | ").map((amount) => `{"amount_cu_milli":${amount}}`)],
};

for (const wanted of ["upgrade", "downgrade", "cancel-downgrade", "purchase"] as const) {
  test(`${wanted}: an invalid body gets 400 and changes nothing`, async () => {
    const bodies = wrong[wanted] ?? [];
    assert.ok(bodies.length > 0);
    for (const body of [...bodies, ...malformed]) {
      if (wanted === "cancel-downgrade" && body === "") continue;
      const { reply, calls } = await ask(wanted, { body });
      assert.equal(reply.status, 400, body);
      const { error_code: code, details } = bodyOf(reply);
      assert.equal(code, "GATEWAY_INVALID_PARAMS", body);
      assert.deepEqual(calls, [], body);
      if (malformed.includes(body)) continue;
      const { violations } = details as { violations: { path: string; reason: string }[] };
      assert.ok(violations.length > 0 && violations.every(({ path }) => path.startsWith("/body")));
    }
  });
}

test("a purchase accepts only a positive safe integer and no other members", async () => {
  const anyAmount = fc.oneof(fc.jsonValue(), fc.double(), fc.maxSafeInteger());
  await fc.assert(
    fc.asyncProperty(anyAmount, fc.boolean(), async (amount, more) => {
      const sent = JSON.parse(
        JSON.stringify({ amount_cu_milli: amount, ...(more && { more }) }),
      ) as Record<string, unknown>;
      const given = sent["amount_cu_milli"];
      const fits = Number.isSafeInteger(given) && Number(given) > 0 && !more;
      const { reply, calls } = await ask("purchase", { body: JSON.stringify(sent) });
      assert.equal(reply.status, fits ? 200 : 400);
      assert.deepEqual(calls, fits ? [["purchase", "ws_1", given, by]] : []);
    }),
    { numRuns: 300 },
  );
});

test("usage reads its range and its group_by, each at most once", async () => {
  const asked = async (query: string): Promise<unknown> =>
    (await ask("usage", { query })).calls[0]?.[2];
  assert.deepEqual(await asked(""), { from: undefined, to: undefined, groupBy: [] });
  const query = "from=2026-01-01&to=2026-01-31T12:00:00%2B01:00&group_by=day,key";
  assert.deepEqual(await asked(query), {
    from: Date.UTC(2026, 0, 1),
    to: Date.UTC(2026, 0, 31, 11),
    groupBy: ["key", "day"],
  });
  for (const bad of `
    from=yesterday from=2026-02-30 to=1767225600 from=2026-01-01&from=2026-01-02
    group_by=day,day group_by=workspace group_by=key, groupBy=key __proto__=1`
    .trim()
    .split(/\s+/)) {
    const { reply, calls } = await ask("usage", { query: bad });
    assert.equal(reply.status, 400, bad);
    assert.equal(bodyOf(reply)["error_code"], "GATEWAY_INVALID_PARAMS", bad);
    assert.deepEqual(calls, [], bad);
  }
});

test("the audit log is paged, and a full page contains the start of the next one", async () => {
  const change = { time: "", actor: "cli:alice", action: "workspace.create", details: {} };
  const changes: Workspaces["changes"] = async (_, { after: last, limit }) => {
    const ids = [1, 2, 3].filter((id) => id > last).slice(0, limit);
    return { kind: "done", value: ids.map((id) => ({ id, ...change })) };
  };
  const page = async (query: string): Promise<unknown[]> => {
    const body = bodyOf((await ask("audit", { query, answers: { changes } })).reply);
    assert.equal(body["workspace_id"], "ws_1");
    return [(body["changes"] as { id: number }[]).map(({ id }) => id), body["next_after"]];
  };
  assert.deepEqual(await page("limit=2"), [[1, 2], 2]);
  assert.deepEqual(await page("limit=2&after=2"), [[3], undefined]);
  assert.deepEqual(await page(""), [[1, 2, 3], undefined]);
  for (const bad of ["limit=0", "limit=1001", "limit=x", "after=-1", "after=1e3", "page=2"]) {
    assert.equal((await ask("audit", { query: bad })).reply.status, 400, bad);
  }
});

test("each result of the service has its status and code", async () => {
  const message = "no downgrade is pending";
  for (const [answer, ...expected] of [
    [{ kind: "conflict", message }, 409, "GATEWAY_CONFLICT", message],
    [{ kind: "invalid", message }, 400, "GATEWAY_INVALID_PARAMS", message],
    [{ kind: "notFound" }, 404, "GATEWAY_NOT_FOUND", "not found"],
    [{ kind: "unavailable" }, 503, "GATEWAY_SERVICE_UNAVAILABLE", "temporarily unavailable"],
  ] as const) {
    const { reply } = await ask("cancel-downgrade", { answers: { cancelDowngrade: answer } });
    const { error_code: code, error } = bodyOf(reply);
    assert.deepEqual([reply.status, code, error], expected);
  }
});
