/** Strict mode: if a plugin violates its manifest or changes the head of the request, the error names the plugin. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startTestGateway, type TestGatewayOptions } from "../../../plugins/contracts/testing.ts";

interface Faulty {
  /** Members of the manifest. */
  readonly manifest?: string;
  /** Hooks of the step. */
  readonly hooks: string;
}

/** Returns a step with these members in front of a surface that answers "ok". */
async function answered(
  { manifest = "", hooks }: Faulty,
  options: Partial<TestGatewayOptions> = {},
): Promise<{ readonly status: number; readonly lines: readonly string[] }> {
  const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { faulty: ./faulty.js, fine: ./fine.js }
routes:
  - { path: "/x/{id}", run: [request-id, faulty], to: fine }
`;
  const prepare = (folder: string): void => {
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(
      join(folder, "faulty.js"),
      `export default { kind: "step", name: "faulty", description: "x", ${manifest} start: () => ({ ${hooks} }) };`,
    );
    writeFileSync(
      join(folder, "fine.js"),
      `export default { kind: "surface", name: "fine", description: "x", start: () => ({ answer: () => ({ status: 200, body: "ok" }) }) };`,
    );
  };
  await using gateway = await startTestGateway({ pipeline, prepare, ...options });
  const headers = { "x-request-id": "r1", "x-user": "client" };
  const { status } = await fetch(`${gateway.url}/x/1`, { headers });
  return { status, lines: [...gateway.lines] };
}

const faults: readonly (readonly [title: string, plugin: Faulty, error: string])[] = [
  [
    "sets a slot that its manifest does not provide",
    { hooks: 'requestHeaders(x) { x.set("charge", 1); }' },
    'plugin "faulty" set the slot "charge": `provides` lacks it',
  ],
  [
    "sets a slot later than its manifest promises",
    {
      manifest: 'provides: { mine: "requestHeaders" },',
      hooks: 'responseHeaders(x) { x.set("mine", 1); }',
    },
    'plugin "faulty" set the slot "mine": the manifest promises it in requestHeaders',
  ],
  [
    "gets a slot that its manifest does not need",
    { hooks: 'requestHeaders(x) { x.get("requestId"); }' },
    'plugin "faulty" read the slot "requestId": `needs` lacks it',
  ],
  [
    "gets a slot that its manifest only wants",
    {
      manifest: 'wants: { requestId: "requestHeaders" },',
      hooks: 'requestHeaders(x) { x.get("requestId"); }',
    },
    'plugin "faulty" read the slot "requestId": `needs` lacks it',
  ],
  [
    "peeks at a slot that its manifest does not want",
    { hooks: 'requestHeaders(x) { x.peek("toString"); }' },
    'plugin "faulty" read the slot "toString": `wants` lacks it',
  ],
  [
    "reads a slot earlier than its manifest says",
    {
      manifest: 'needs: { requestId: "responseHeaders" },',
      hooks: 'requestHeaders(x) { x.get("requestId"); }',
    },
    'plugin "faulty" read the slot "requestId": the manifest reads it first in responseHeaders',
  ],
  [
    "streams although it is a step",
    { hooks: "async requestHeaders(x) { await x.stream(200, []); }" },
    'plugin "faulty" called stream(): only surfaces may',
  ],
  [
    "changes a header of the request",
    { hooks: 'requestHeaders({ request }) { request.headers["x-user"] = "acme"; }' },
    "Cannot assign to read only property 'x-user'",
  ],
  [
    "adds a header to the request",
    { hooks: 'requestHeaders({ request }) { request.headers["x-tenant"] = "acme"; }' },
    "Cannot add property x-tenant",
  ],
  [
    "writes to the raw headers",
    { hooks: 'requestHeaders({ request }) { request.rawHeaders.push("a", "b"); }' },
    "Cannot add property",
  ],
  [
    "writes to the parameters of the path",
    { hooks: 'requestHeaders({ request }) { request.params.id = "2"; }' },
    "Cannot assign to read only property 'id'",
  ],
  [
    "reads the body that the surface reads, without the permission",
    { manifest: "permissions: {},", hooks: "requestHeaders(x) { x.body; }" },
    'plugin "faulty" read `body`: `permissions.body` must be "read" or "write"',
  ],
  [
    "replaces the body although it may only read it",
    {
      manifest: 'permissions: { body: "read" },',
      hooks: "requestHeaders(x) { x.replaceBody(Buffer.from('y')); }",
    },
    'plugin "faulty" changed a body: `permissions.body` must be "write"',
  ],
  [
    "replaces a chunk although it may only read it",
    {
      manifest: 'permissions: { body: "read" },',
      hooks: "responseChunk: (_, chunk) => chunk",
    },
    'plugin "faulty" changed a body: `permissions.body` must be "write"',
  ],
];

describe("a plugin that", () => {
  for (const [title, plugin, error] of faults) {
    it(`${title} fails with an error that describes it and has the id of the request`, async () => {
      const { status, lines } = await answered(plugin);
      assert.equal(status, 500);
      const line = lines.find((each) => each.startsWith("a plugin failed")) ?? "";
      assert.ok(line.includes(JSON.stringify(error).slice(1, -1)), line);
      assert.match(line, /"plugin":"faulty"/);
      assert.match(line, /"requestId":"r1"/);
    });
  }

  it("keeps to its manifest sees the usual exchange, the same one in every hook", async () => {
    const { status, lines } = await answered({
      manifest: 'needs: { requestId: "requestHeaders" }, provides: { mine: "requestHeaders" },',
      hooks: `
        requestHeaders(x) {
          this.first = x;
          x.set("mine", x.get("requestId") + x.request.params.id);
          x.onAbort = { aborted() {} };
          if (x.onAbort === undefined || x.signal.aborted) throw new Error("not the exchange");
        },
        responseHeaders(x, head) { head.set("x-mine", x.peek("mine")); },
        settled(x) { if (x !== this.first || x.sent.status !== 200) throw new Error("another exchange"); }`,
    });
    assert.deepEqual([status, lines.filter((line) => line.includes("failed"))], [200, []]);
  });

  it("breaks its manifest does not fail if the gateway is not strict", async () => {
    const hooks = 'requestHeaders(x) { x.set("charge", x.get("requestId")); }';
    assert.equal((await answered({ hooks }, { strict: false })).status, 200);
  });
});
