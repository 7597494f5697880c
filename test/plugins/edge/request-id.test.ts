import assert from "node:assert/strict";
import { test } from "node:test";
import requestId from "../../../plugins/edge/request-id/index.ts";
import { fakeExchange, fakeHead, fakeHost } from "../fakes.ts";

const hooks = await requestId.start({}, fakeHost());
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

function idFor(sent: string | undefined): string {
  const x = fakeExchange({ headers: { "x-request-id": sent } });
  assert.equal(hooks.requestHeaders?.(x), undefined);
  return x.get("requestId");
}

for (const id of ["a", "!~", "7".repeat(128), '{"a":1}']) {
  test(`a client's id of visible ASCII is kept: ${id.slice(0, 10)}`, () => {
    assert.equal(idFor(id), id);
  });
}

for (const [what, id] of [
  ["absent", undefined],
  ["empty", ""],
  ["longer than 128", "7".repeat(129)],
  ["with a space", "a b"],
  ["two fields joined by Node", "a, b"],
  ["with a tab", "a\tb"],
  ["with DEL", "a\x7f"],
  ["beyond ASCII", "é"],
] as const) {
  test(`an id that is ${what} becomes a UUID`, () => {
    assert.match(idFor(id), uuid);
  });
}

test("each exchange gets its own UUID", () => {
  assert.notEqual(idFor(undefined), idFor(undefined));
});

test("the response carries the id instead of whatever the surface sent", async () => {
  const x = fakeExchange({ slots: { requestId: "mine" } });
  const head = fakeHead({ status: 200, headers: ["X-Request-Id", "upstream"] });
  await hooks.responseHeaders?.(x, head);
  assert.deepEqual(head.fields, ["x-request-id", "mine"]);
});
