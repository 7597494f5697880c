/** Strict mode: if a plugin violates its manifest or changes the head of the request, the error names the plugin. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startTestGateway, type TestGatewayOptions } from "../../../plugins/contracts/testing.ts";

interface Faulty {
  readonly manifest?: string;
  readonly hooks: string;
}

/** Starts a gateway with each step in front of a surface that answers "ok". Asks each one once. */
async function answered(
  steps: readonly Faulty[],
  options: Partial<TestGatewayOptions> = {},
): Promise<{ readonly statuses: readonly number[]; readonly lines: readonly string[] }> {
  const names = steps.map((_, at) => `faulty-${at}`);
  const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { ${names.map((name) => `${name}: ./${name}.js, `).join("")}fine: ./fine.js }
routes:
${names.map((name) => `  - { path: "/${name}/{id}", run: [request-id, ${name}], to: fine }`).join("\n")}
`;
  const prepare = (folder: string): void => {
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    for (const [at, { manifest = "", hooks }] of steps.entries()) {
      const head = `kind: "step", name: "faulty-${at}", description: "x"`;
      const code = `export default { ${head}, ${manifest} start: () => ({ ${hooks} }) };`;
      writeFileSync(join(folder, `faulty-${at}.js`), code);
    }
    writeFileSync(
      join(folder, "fine.js"),
      `export default { kind: "surface", name: "fine", description: "x", start: () => ({ answer: () => ({ status: 200, body: "ok" }) }) };`,
    );
  };
  await using gateway = await startTestGateway({ pipeline, prepare, ...options });
  const statuses: number[] = [];
  for (const name of names) {
    const headers = { "x-request-id": `id-${name}`, "x-user": "client" };
    statuses.push((await fetch(`${gateway.url}/${name}/1`, { headers })).status);
  }
  return { statuses, lines: [...gateway.lines] };
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

describe("a plugin that", async () => {
  const { statuses, lines } = await answered(faults.map(([, plugin]) => plugin));
  for (const [at, [title, , error]] of faults.entries()) {
    it(`${title} fails with an error that describes it and has the id of the request`, () => {
      const name = `faulty-${at}`;
      assert.equal(statuses[at], 500);
      const line = lines.find((each) => each.includes(`"requestId":"id-${name}"`)) ?? "";
      assert.match(line, /^a plugin failed/);
      assert.ok(line.includes(JSON.stringify(error.replace("faulty", name)).slice(1, -1)), line);
      assert.match(line, new RegExp(`"plugin":"${name}"`));
    });
  }

  it("keeps to its manifest sees the usual exchange, the same one in every hook", async () => {
    const kept = await answered([
      {
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
      },
    ]);
    const failures = kept.lines.filter((line) => line.includes("failed"));
    assert.deepEqual([kept.statuses, failures], [[200], []]);
  });

  it("breaks its manifest does not fail if the gateway is not strict", async () => {
    const hooks = 'requestHeaders(x) { x.set("charge", x.get("requestId")); }';
    assert.deepEqual((await answered([{ hooks }], { strict: false })).statuses, [200]);
  });
});
