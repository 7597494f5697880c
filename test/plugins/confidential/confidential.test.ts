/** The HTTP routes of the encrypted stream: accepted bodies and paths are the documented ones. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Confidential, KeyPrincipal, Tickets, TicketTerms } from "sluice-gateway/services";
import { testSurface, type TestedHandler } from "sluice-gateway/testing";
import confidential from "../../../plugins/confidential/confidential/index.ts";
import { operations } from "../../../plugins/confidential/confidential/operation.ts";
import type { JsonSchema } from "../../../src/plugin.ts";
import { keyPrincipal } from "../fakes.ts";

const admin = keyPrincipal({ capabilities: ["platform:admin"] });
const json = { "content-type": "application/json" };

let terms: TicketTerms | undefined;
const tickets: Tickets = {
  issue(wanted) {
    terms = wanted;
    return { ticket: "t", expiresAt: 0 };
  },
  redeem: () => assert.fail("unexpected redeem"),
};

async function open(
  wanted: "ticket" | "evidence" | "receipt",
  path: string,
  more: { readonly relay?: Partial<Confidential>; readonly principal?: KeyPrincipal } = {},
): Promise<TestedHandler> {
  const { relay = {}, principal = admin } = more;
  const surface = await testSurface(confidential, {
    options: { do: wanted },
    path,
    slots: { principal },
    services: { accounts: { tickets }, "confidential-relay": relay },
  });
  after(() => surface[Symbol.asyncDispose]());
  return surface;
}

const ticketSurface = await open("ticket", "/tickets");

/** Returns the terms of the ticket for this body, or the path of the first violation. */
async function issued(body: unknown, origin?: string): Promise<TicketTerms | string> {
  terms = undefined;
  const headers = { ...json, ...(origin !== undefined && { origin }) };
  const answer = await ticketSurface.send({ body: JSON.stringify(body), headers });
  assert.equal(answer.status, terms === undefined ? 400 : 201);
  if (terms !== undefined) return terms;
  // The refusal was created by this surface.
  const { details } = answer.json() as { details: { violations: { path: string }[] } };
  assert.equal(details.violations.length, 1);
  return details.violations[0]?.path ?? "";
}

test("a ticket is valid for the model and origin in the body, or else for the origin of the request", async () => {
  const keyId = admin.key.id;
  const here = "https://app.example";
  assert.deepEqual(await issued({}), { keyId, model: undefined, origin: undefined });
  assert.deepEqual(await issued({}, here), { keyId, model: undefined, origin: here });
  assert.deepEqual(await issued({ model: "M/1", origin: here }, "https://b.example"), {
    keyId,
    model: "M/1",
    origin: here,
  });
});

test("a caller without an API key gets no ticket, because it could not be redeemed", async () => {
  terms = undefined;
  const principal = keyPrincipal({ id: "oidc_ada", capabilities: ["inference"] });
  const surface = await open("ticket", "/tickets", { principal });
  const answer = await surface.send({ body: "{}", headers: json });
  assert.equal(answer.status, 403);
  assert.deepEqual(answer.json(), {
    error: "tickets need an API key",
    error_code: "GATEWAY_PERMISSION_DENIED",
  });
  assert.equal(terms, undefined);
});

test("an invalid body is refused with the path of the violation", async () => {
  for (const body of [null, [], "text", 1, { when: 1 }]) assert.equal(await issued(body), "/body");
  for (const model of ["", "x".repeat(257), 7, null]) {
    assert.equal(await issued({ model }), "/body/model", String(model));
  }
  assert.ok(typeof (await issued({ model: "x".repeat(256) })) === "object");
});

test("an origin must have a browser's spelling, because no page could use the ticket otherwise", async () => {
  for (const origin of [
    "https://app.example",
    "http://localhost:5173",
    "https://[::1]:8443",
    "https://xn--bcher-kva.example",
  ]) {
    assert.ok(typeof (await issued({ origin })) === "object", origin);
  }
  for (const origin of [
    "app.example",
    "https://a/b",
    "https://a/",
    "https://A",
    "https://a:443",
    "https://bücher.example",
    "https://",
    "ws://a",
    "null",
    "",
    7,
    null,
  ]) {
    assert.equal(await issued({ origin }), "/body/origin", String(origin));
  }
});

const pricing = {
  network: "n",
  coefficient: 1000,
  pricePerTokenNano: "0",
  tokenUsdRate: undefined,
  asOf: "2026-01-01T00:00:00Z",
};
const found: Pick<Confidential, "evidence" | "receipt"> = {
  evidence: () => ({}),
  receipt: (session, rid) =>
    Promise.resolve({
      session,
      rid,
      report: "",
      sig: "",
      evidenceDigest: "",
      pricing,
      usedCUMilli: 0,
      paidBeforeCUMilli: undefined,
      verified: true,
      unverifiedReason: undefined,
      keyId: admin.key.id,
      workspaceId: "ws_1",
    }),
};

test("a path is looked up if and only if the OpenAPI document allows it", async () => {
  // Every lookup succeeds, so a path that is not found was not looked up.
  const receiptSurface = await open("receipt", "/{session}/{rid}", { relay: found });
  const evidenceSurface = await open("evidence", "/{digest}", { relay: found });
  const session = "A".repeat(22);
  const rid = "1";
  const receipts = [
    ...["1", "9999999999", "0", "10000000000", "-1", "1.5", "x"].map((n) => ({ session, rid: n })),
    ...["-_09azAZ".repeat(3).slice(2), "A".repeat(21), "A".repeat(23), `${"A".repeat(21)}=`].map(
      (text) => ({ session: text, rid }),
    ),
  ];
  let taken = 0;
  for (const params of receipts) {
    const path = `/${params.session}/${params.rid}`;
    const { status } = await receiptSurface.send({ path });
    const documented = isDocumented(operations.receipt.path, params);
    assert.equal(status, documented ? 200 : 404, JSON.stringify(params));
    if (documented) taken++;
  }
  assert.equal(taken, 3);
  const hex = "0123456789abcdef".repeat(4);
  for (const [digest, isTaken] of [
    [hex, true],
    [`sha256:${hex}`, true],
    [hex.slice(1), false],
    [`${hex}0`, false],
    [hex.toUpperCase(), false],
    [`sha512:${hex}`, false],
  ] as const) {
    assert.equal(isDocumented(operations.evidence.path, { digest }), isTaken, digest);
    const { status } = await evidenceSurface.send({ path: `/${digest}` });
    assert.equal(status, isTaken ? 200 : 404, digest);
  }
});

test("a receipt is answered with 503 while the store cannot be read", async () => {
  const receipt = (): Promise<never> => Promise.reject(new Error("away"));
  const surface = await open("receipt", "/{session}/{rid}", { relay: { receipt } });
  assert.equal((await surface.send({ path: `/${"A".repeat(22)}/1` })).status, 503);
});

/** True if the parameters match the schema. Segments of a path are strings, which a schema may treat as numbers. */
function isDocumented(schema: JsonSchema | undefined, params: Record<string, string>): boolean {
  assert.ok(schema !== undefined);
  return new Ajv2020({ coerceTypes: true }).validate(schema, { ...params });
}
