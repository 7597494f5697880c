/**
 * Starts a gateway as it is shipped, answers one request, and prints how many files of OpenTelemetry were loaded. Its
 * interfaces do not count, because prom-client loads them in any case.
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const loaded = new Set<string>();
registerHooks({
  load(url, context, next) {
    if (/\/@opentelemetry\/(?!api\/)/.test(url)) loaded.add(url);
    return next(url, context);
  },
});
// Imported after the hooks are registered, so that they see what it loads.
const { startTestGateway } = await import("../../../../src/testing/gateway.ts");
const pipeline = readFileSync(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");
{
  await using gateway = await startTestGateway({ pipeline });
  const headers = { authorization: `Bearer ${gateway.key}` };
  const { status } = await fetch(`${gateway.url}/.well-known/mcp`, { headers });
  console.log(JSON.stringify({ status, loaded: loaded.size }));
}
