/**
 * Starts a gateway as it is shipped, answers one request, and prints how many files of OpenTelemetry were loaded. Its
 * bare interfaces do not count: prom-client brings them along, traces or none.
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
// After the hooks: what it loads is to be seen.
const { startTestGateway } = await import("../../../../plugins/contracts/testing.ts");
const pipeline = readFileSync(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");
{
  await using gateway = await startTestGateway({ pipeline });
  const headers = { authorization: `Bearer ${gateway.key}` };
  const { status } = await fetch(`${gateway.url}/.well-known/mcp`, { headers });
  console.log(JSON.stringify({ status, loaded: loaded.size }));
}
