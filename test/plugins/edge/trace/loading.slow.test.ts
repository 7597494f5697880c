import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { deadPort } from "../../../http/forwarding-gateway.ts";

const child = fileURLToPath(new URL("loading-child.ts", import.meta.url));

/** Returns how many files of OpenTelemetry a gateway loads, in a separate process with these OTEL_* variables. */
async function loadedWith(variables: Readonly<Record<string, string>>): Promise<number> {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("OTEL_"));
  const env = { ...Object.fromEntries(others), ...variables };
  const { stdout } = await promisify(execFile)(process.execPath, [child], { env });
  // The child prints this line. The access log follows.
  const [said = ""] = stdout.split("\n");
  const { status, loaded } = JSON.parse(said) as { status: number; loaded: number };
  assert.equal(status, 200);
  return loaded;
}

test("without the variables, nothing of OpenTelemetry is loaded", async () => {
  assert.equal(await loadedWith({}), 0);
});

test("nothing is loaded if the variables disable traces", async () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
  assert.equal(await loadedWith({ ...endpoint, OTEL_SDK_DISABLED: "true" }), 0);
});

test("with an endpoint it is loaded, which shows that the count works", async () => {
  const endpoint = `http://127.0.0.1:${await deadPort()}`;
  const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_TIMEOUT: "100" };
  assert.notEqual(await loadedWith(variables), 0);
});
