/** The examples of docs/encrypted-stream.md: they type-check, and the first one runs. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { parse } from "yaml";
import { readPolicy } from "../../plugins/confidential/protocol/policy-document.ts";
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

test("the first example works beside `npm start` as the page shows", async (t) => {
  const dev = await spawnDev(t);
  const env = {
    ...process.env,
    GATEWAY_URL: dev.url,
    SLUICE_API_KEY: dev.key,
    SIMULATED_ROOT: dev.simulated_root,
  };
  const { stdout } = await run(process.execPath, [join(project(t), "0.ts")], { env });
  assert.match(stdout, /^Hello\n2 tokens, 6 of 6 milli-CU\nnot verified: simulated\n$/);
});

test("the ticket of the page is read from the relayed answer of the gateway", async (t) => {
  const folder = project(t);
  const sample = examples
    .find((example) => example.includes("/my/ticket"))
    ?.replace(/^import .*$/m, "const connect = ({ ticket }: { ticket(): unknown }) => ticket();");
  const answer = { ticket: "one-ticket", expires_at: "2026-11-24T00:00:00Z" };
  const server = `globalThis.fetch = async () => Response.json(${JSON.stringify(answer)});`;
  writeFileSync(join(folder, "page.ts"), `${server}\n${sample}\nconsole.log(session);`);
  const { stdout } = await run(process.execPath, [join(folder, "page.ts")]);
  assert.equal(stdout, "one-ticket\n");
});

async function spawnDev(
  t: TestContext,
): Promise<{ readonly url: string; readonly key: string; readonly simulated_root: string }> {
  const child = spawn(process.execPath, [join(root, "src/main.ts"), "dev", "--json"], {
    env: { ...process.env, PORT: "0", ADMIN_PORT: "0", DATA_DIR: temporaryFolder(t) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "close");
  t.after(async () => {
    child.kill("SIGTERM");
    await exited;
  });
  const [line] = await Promise.race([
    once(createInterface(child.stdout), "line"),
    exited.then(() => assert.fail("sluice dev ended at once")),
  ]);
  return JSON.parse(String(line));
}

test("the policy of the page can be read", () => {
  const yaml = blocks.find(([, language]) => language === "yaml")?.[2] ?? "";
  const policy = readPolicy(parse(yaml));
  assert.ok(typeof policy !== "string", JSON.stringify(policy));
});
