/** Tests the test gateway, as authors of plugins use it. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "../store/folder.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { broken-tools: ./broken-tools.js }
tools: [broken-tools]
routes:
  - path: /rpc
    run: [request-id, access-log, authenticate, rate-limit, { authorize: { require: key } }, meter]
    to: tool-rpc
`;

const broken = `
export default {
  kind: "tools", name: "broken-tools", description: "x",
  start: () => ({ tools: [{
    name: "breaks", description: "x", inputSchema: { type: "object" }, price: 1,
    call() { throw new Error("the reason", { cause: new Error("the cause of it") }); },
  }] }),
};`;

const prepare = (folder: string): void => {
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "broken-tools.js"), broken);
};

function call(url: string, key: string): Promise<Response> {
  return fetch(`${url}/rpc`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "x-request-id": "r7",
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"tool":"breaks","params":{}}}',
  });
}

test("the lines contain the error of a failed tool, with its stack and the request id", async () => {
  await using gateway = await startTestGateway({ pipeline, prepare });
  await call(gateway.url, gateway.key);
  const line = gateway.lines.find((each) => each.startsWith("a tool failed")) ?? "";
  assert.match(line, /the reason.*broken-tools\.js/);
  assert.match(line, /the cause of it/);
  assert.match(line, /"requestId":"r7"/);
});

test("nothing is written to standard output", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "quiet.ts");
  const module = new URL("../../plugins/contracts/testing.ts", import.meta.url).href;
  writeFileSync(
    file,
    `import { startTestGateway } from ${JSON.stringify(module)};
const pipeline = ${JSON.stringify(pipeline.replace(/plugins:.*\ntools:.*\n/, ""))};
await using gateway = await startTestGateway({ pipeline });
await fetch(gateway.url + "/rpc", { method: "POST" });`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, [file]);
  assert.equal(stdout, "");
});
