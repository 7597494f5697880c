/** The HTTP routes of the encrypted stream: accepted bodies and paths are the documented ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Confidential, TicketTerms } from "sluice-gateway/services";
import { showEvidence } from "../../../plugins/confidential/confidential/documents.ts";
import { operations } from "../../../plugins/confidential/confidential/operation.ts";
import { showReceipt } from "../../../plugins/confidential/confidential/receipt.ts";
import { issueTicket } from "../../../plugins/confidential/confidential/ticket.ts";
import type { JsonSchema } from "../../../src/plugin.ts";
import { bodyOf, fakeExchange, keyPrincipal } from "../fakes.ts";

const principal = keyPrincipal({ capabilities: ["platform:admin"] });

/** Returns the terms of the ticket for this body, or the path of the first violation. */
function issued(body: unknown, origin?: string): TicketTerms | string {
  let terms: TicketTerms | undefined;
  const tickets = {
    issue(wanted: TicketTerms) {
      terms = wanted;
      return { ticket: "t", expiresAt: 0 };
    },
    redeem: () => assert.fail("unexpected redeem"),
  };
  const headers = origin === undefined ? {} : { origin };
  const x = fakeExchange({ slots: { principal }, body: JSON.stringify(body), headers });
  const reply = issueTicket(x, tickets);
  assert.equal(reply.status, terms === undefined ? 400 : 201);
  if (terms !== undefined) return terms;
  // The refusal was created by this surface.
  const { violations } = bodyOf(reply)["details"] as { violations: { path: string }[] };
  assert.equal(violations.length, 1);
  return violations[0]?.path ?? "";
}

test("a ticket is valid for the model and origin in the body, or else for the origin of the request", () => {
  const keyId = principal.key.id;
  const here = "https://app.example";
  assert.deepEqual(issued({}), { keyId, model: undefined, origin: undefined });
  assert.deepEqual(issued({}, here), { keyId, model: undefined, origin: here });
  assert.deepEqual(issued({ model: "M/1", origin: here }, "https://b.example"), {
    keyId,
    model: "M/1",
    origin: here,
  });
});

test("a caller without an API key gets no ticket, because it could not be redeemed", () => {
  const tickets = {
    issue: () => assert.fail("unexpected ticket"),
    redeem: () => assert.fail("unexpected redeem"),
  };
  const slots = { principal: keyPrincipal({ id: "oidc_ada", capabilities: ["inference"] }) };
  const reply = issueTicket(fakeExchange({ slots, body: "{}" }), tickets);
  assert.equal(reply.status, 403);
  const { error_code: code, error } = bodyOf(reply);
  assert.deepEqual([code, error], ["GATEWAY_PERMISSION_DENIED", "tickets need an API key"]);
});

test("an invalid body is refused with the path of the violation", () => {
  for (const body of [null, [], "text", 1, { when: 1 }]) assert.equal(issued(body), "/body");
  for (const model of ["", "x".repeat(257), 7, null]) {
    assert.equal(issued({ model }), "/body/model", String(model));
  }
  assert.ok(typeof issued({ model: "x".repeat(256) }) === "object");
});

test("an origin must have a browser's spelling, because no page could use the ticket otherwise", () => {
  for (const origin of [
    "https://app.example",
    "http://localhost:5173",
    "https://[::1]:8443",
    "https://xn--bcher-kva.example",
  ]) {
    assert.ok(typeof issued({ origin }) === "object", origin);
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
    assert.equal(issued({ origin }), "/body/origin", String(origin));
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
      keyId: principal.key.id,
      workspaceId: "ws_1",
    }),
};

test("a path is looked up if and only if the OpenAPI document allows it", async () => {
  // Every lookup succeeds, so a path that is not found was not looked up.
  const confidential = found as Confidential;
  const session = "A".repeat(22);
  const rid = "1";
  const receipts: readonly Record<string, string>[] = [
    ...["1", "9999999999", "0", "10000000000", "-1", "1.5", "x"].map((n) => ({ session, rid: n })),
    ...["-_09azAZ".repeat(3).slice(2), "A".repeat(21), "A".repeat(23), `${"A".repeat(21)}=`].map(
      (text) => ({ session: text, rid }),
    ),
  ];
  let taken = 0;
  for (const params of receipts) {
    const x = fakeExchange({ params, slots: { principal } });
    const { status } = await showReceipt(x, confidential);
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
    const params = { digest };
    assert.equal(isDocumented(operations.evidence.path, params), isTaken, digest);
    const { status } = showEvidence(fakeExchange({ params }), confidential);
    assert.equal(status, isTaken ? 200 : 404, digest);
  }
});

test("a receipt is answered with 503 while the store cannot be read", async () => {
  const away = {
    ...(found as Confidential),
    receipt: () => Promise.reject(new Error("away")),
  };
  const params = { session: "A".repeat(22), rid: "1" };
  assert.equal((await showReceipt(fakeExchange({ params }), away)).status, 503);
});

/** True if the parameters match the schema. Segments of a path are strings, which a schema may treat as numbers. */
function isDocumented(schema: JsonSchema | undefined, params: Record<string, string>): boolean {
  assert.ok(schema !== undefined);
  return new Ajv2020({ coerceTypes: true }).validate(schema, { ...params });
}
