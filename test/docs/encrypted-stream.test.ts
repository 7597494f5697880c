/** The examples of docs/encrypted-stream.md: they type-check, and the first one runs. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { parse } from "yaml";
import { readPolicy } from "../../src/confidential/policy-document.ts";
import { platform, startFakeGateway } from "../client/fake-gateway.ts";
import { temporaryFolder } from "../store/folder.ts";
import { root } from "./tables.ts";

const page = readFileSync(join(root, "docs/encrypted-stream.md"), "utf8");
const blocks = [...page.matchAll(/^```(\w+)\n([^]*?)^```$/gm)];
const examples = blocks.filter(([, language]) => language === "ts").map(([, , text = ""]) => text);
const run = promisify(execFile);

function project(t: TestContext): string {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "sluice-gateway"), "dir");
  for (const [at, text] of examples.entries()) writeFileSync(join(folder, `${at}.ts`), text);
  return folder;
}

test("the examples type-check", async (t) => {
  const folder = project(t);
  const compilerOptions = {
    target: "esnext",
    module: "nodenext",
    strict: true,
    lib: ["esnext"],
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
  };
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions, include: ["*.ts"] }),
  );
  assert.equal(examples.length, 3);
  await run(join(root, "node_modules/.bin/tsc"), ["-p", folder]).catch((error: unknown) => {
    const printed = error instanceof Error && "stdout" in error ? String(error.stdout) : "";
    throw new Error(`an example does not compile:\n${printed}`, { cause: error });
  });
});

test("the first example says what it says in the page", async (t) => {
  const gateway = await startFakeGateway(t, {}, { at: Date.now() });
  const env = {
    ...process.env,
    GATEWAY_URL: gateway.url,
    SLUICE_API_KEY: "gateway_dev_key",
    SIMULATED_ROOT: platform.root,
  };
  const { stdout } = await run(process.execPath, [join(project(t), "0.ts")], { env });
  assert.match(stdout, /^Hello\n14 tokens, 66 of 66 milli-CU\nnot verified: simulated\n$/);
});

test("the policy of the page can be read", () => {
  const yaml = blocks.find(([, language]) => language === "yaml")?.[2] ?? "";
  const policy = readPolicy(parse(yaml));
  assert.ok(typeof policy !== "string", JSON.stringify(policy));
});
