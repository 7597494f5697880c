/**
 * Golden cases of pipeline.yaml: the file, a line `----`, then what `sluice check` prints about it. Comment lines at
 * the top set the environment (`# env NAME=value`), and `# strict` adds what `--strict` reports. `UPDATE=1` writes the
 * current output to the files.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { printOrder } from "../../src/commands/check.ts";
import { orderFaults, printFault } from "../../src/config/fault.ts";
import { productionFaults } from "../../src/config/production.ts";
import { parseConfig } from "../../src/config/parse-config.ts";
import { sluiceErrors } from "../../src/base/errors.ts";
import { checkParsed } from "../../src/pipeline/load/check-file.ts";
import { shippedModules, shippedServices } from "../../src/pipeline/load/modules.ts";
import { dryRun } from "../../src/pipeline/load/dry-run.ts";

const folder = import.meta.dirname;
const files = globSync(join(folder, "cases", "*.case")).toSorted();
const services = await shippedServices();
const separator = "\n----\n";

async function printed(text: string): Promise<string> {
  const env = Object.fromEntries(
    [...text.matchAll(/^# env (\w+)=(.*)$/gm)].map(([, name = "", value]) => [name, value]),
  );
  const reading = parseConfig(text, join(folder, "pipeline.yaml"), env, services);
  const checked = await checkParsed(reading);
  const { validated, faults: found } = await dryRun(checked, env);
  const faults = [...found];
  if (/^# strict$/m.test(text) && checked.startable !== undefined) {
    const { production } = await shippedModules();
    faults.push(...orderFaults(productionFaults(checked.startable.config, production)));
  }
  if (validated === undefined || faults.length > 0) {
    return faults.map((fault) => printFault(fault, folder)).join("\n");
  }
  return ["in order", ...printOrder(validated.config)].join("\n");
}

for (const file of files) {
  test(`case ${basename(file, ".case")}`, async () => {
    const [yaml = "", expected = ""] = readFileSync(file, "utf8").split(separator);
    const actual = await printed(`${yaml}\n`);
    if (process.env["UPDATE"] === "1") writeFileSync(file, `${yaml}${separator}${actual}\n`);
    else assert.equal(`${actual}\n`, expected);
  });
}

test("every code of a fault in pipeline.yaml has a golden case", () => {
  const seen = new Set(files.flatMap((file) => readFileSync(file, "utf8").match(/SLUICE_\w+/g)));
  // These faults do not depend on the text of the file.
  const elsewhere = [
    "SLUICE_FILE_MISSING",
    "SLUICE_FILE_UNREADABLE",
    "SLUICE_LISTEN_FAILED",
    "SLUICE_TLS_INVALID",
    "SLUICE_STRICT_CERTIFICATE",
    "SLUICE_START_FAILED",
    "SLUICE_STOPPING",
    "SLUICE_RESTART_NEEDED",
    // test/main.slow.test.ts
    "SLUICE_PLUGIN_STOP",
    // They need a package: test/commands/plugin.slow.test.ts and check.test.ts.
    "SLUICE_STRICT_LINKED",
    "SLUICE_PLUGIN_GRANTS",
  ];
  const missing = Object.keys(sluiceErrors).filter(
    (code) => !seen.has(code) && !elsewhere.includes(code),
  );
  assert.deepEqual(missing, []);
});
