/** The plots of the benchmarks, and the demo of three gateways with one budget. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { drawPlots, readPage } from "../../bench/plot.ts";
import { ask, signIn } from "../plugins/dashboard/dashboard/gateway.ts";

const root = join(import.meta.dirname, "../..");

test("the plots show the tables of their pages", () => {
  for (const [file, { svg, page }] of drawPlots(readPage)) {
    const committed = readFileSync(join(root, file), "utf8");
    assert.equal(committed, svg, `run \`npm run bench -- --plot\` to draw ${file} again`);
    const link = relative(dirname(page), file);
    assert.ok(readPage(page).includes(`(${link})`), `${page} shows ${link}`);
  }
});

test("a table without the column of a plot is an error", () => {
  const column = "CPU µs, 256 connections";
  const renamed = (page: string): string => readPage(page).replaceAll(column, "CPU");
  assert.throws(() => drawPlots(renamed), /no column "CPU µs, 256 connections"/);
  assert.throws(() => drawPlots(() => "# Benchmarks\n"), /no table "The node proxy"/);
});

test("npm run replicas spends one budget exactly through three gateways, whose dashboards accept the printed key", async () => {
  const demo = spawn(process.execPath, [join(root, "bench/replicas/demo.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(demo, "close");
  let stdout = "";
  for await (const text of demo.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    stdout += String(text);
    if (stdout.includes("Press Ctrl-C")) break;
  }
  try {
    const answered = [...stdout.matchAll(/gateway \d answered (\d+) calls/g)].map(([, n]) =>
      Number(n),
    );
    assert.equal(answered.length, 3);
    const sum = answered.reduce((total, n) => total + n, 0);
    // A call of system_health costs 100 milli-CU.
    assert.equal(sum, 30);
    assert.match(stdout, /PostgreSQL has 30 charges, which total 3 CU\./);
    assert.match(stdout, /curl http:\/\/127\.0\.0\.1:\d+\/v1\/ledger\/rpc/);
    const key = /^ {2}(gateway_\w+)$/m.exec(stdout)?.[1] ?? "";
    const dashboards = [...stdout.matchAll(/dashboard (\S+)\/dashboard$/gm)];
    assert.equal(dashboards.length, 3);
    for (const [, adminUrl = ""] of dashboards) {
      const cookie = await signIn({ adminUrl }, key);
      assert.equal((await ask({ adminUrl }, "health", { cookie })).status, 200);
    }
  } finally {
    demo.kill("SIGINT");
    await ended;
  }
  assert.equal(demo.exitCode, 0);
});
