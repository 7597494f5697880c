/** Questions of users, also in words that other products use, find their page within three hits of docs_search. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openLibrary } from "../../plugins/tools/docs-search/library.ts";
import { root } from "./tables.ts";

/** A question, with the end of the address of each page that answers it. */
const questions: readonly (readonly [question: string, ...pages: string[]])[] = [
  ["quota", "keys-and-limits.md", "credit-and-metering.md"],
  ["graceful shutdown", "operations.md"],
  ["rate limiting", "keys-and-limits.md", "rate-limit/README.md"],
  ["SSO", "dashboard.md"],
  ["single sign-on for the dashboard", "dashboard.md"],
  ["load balancing between workers", "inference.md"],
  ["failover when a node is down", "node-proxy.md"],
  ["circuit breaker", "inference.md", "node-proxy.md", "operations.md"],
  ["health check for Kubernetes", "kubernetes.md", "operations.md"],
  ["how do I create an API key", "keys-and-limits.md", "getting-started.md", "workspaces.md"],
  ["revoke a leaked key", "keys-and-limits.md"],
  ["how much does a call cost", "credit-and-metering.md", "tools.md", "node-proxy.md"],
  ["price per token", "inference.md", "credit-and-metering.md"],
  ["export usage to billing", "credit-and-metering.md"],
  ["429 too many requests", "errors.md", "keys-and-limits.md"],
  ["503 service unavailable", "errors.md", "troubleshooting.md", "replicas.md"],
  ["back up the data folder", "operations.md"],
  ["run several replicas", "replicas.md"],
  ["high availability", "replicas.md"],
  ["TLS certificate", "operations.md"],
  ["reload configuration without restart", "operations.md"],
  ["prometheus metrics", "operations.md"],
  ["write a plugin", "writing-plugins.md"],
  ["connect Claude or Cursor over MCP", "clients.md", "mcp-server.md"],
  ["polkadot.js websocket", "clients.md", "papi.md", "node-proxy.md", "ledger-ws/README.md"],
  ["verify attestation of the enclave", "encrypted-stream.md", "worker.md"],
  ["end-to-end encryption", "encrypted-stream.md"],
  ["move from LiteLLM", "litellm.md"],
  ["webhook alerts", "alerts.md"],
  ["cache node responses", "node-proxy.md"],
  ["JWT OIDC authentication", "jwt-auth/README.md"],
  ["CORS", "cors/README.md"],
  ["browser preflight request", "cors/README.md"],
  ["OAuth protected resource metadata", "resource-metadata/README.md"],
  ["redact personal data", "redact-pii/README.md"],
  ["tools of another MCP server", "mcp-federation/README.md"],
  ["why is my request slow", "troubleshooting.md", "operations.md"],
  ["rotate a key", "keys-and-limits.md"],
  ["model fallback", "inference.md"],
  ["streaming", "inference.md", "how-it-works.md", "node-proxy.md"],
  ["limit spend per customer", "keys-and-limits.md", "credit-and-metering.md", "workspaces.md"],
  ["audit log", "workspaces.md"],
  ["docker compose", "compose.md"],
  ["helm", "kubernetes.md"],
  ["upgrade without downtime", "operations.md", "replicas.md", "versioning.md"],
  ["restore a backup", "operations.md", "replicas.md"],
  ["who can see prompts", "how-it-works.md", "encrypted-stream.md"],
  ["batch requests", "gateway-batch/README.md", "node-proxy.md", "tools.md"],
  ["architecture", "how-it-works.md"],
  ["key does not work 401", "troubleshooting.md", "errors.md"],
  ["readyz returns 503", "troubleshooting.md", "operations.md"],
  ["reload refused", "troubleshooting.md", "operations.md"],
  ["websocket closes with 1013", "troubleshooting.md", "node-proxy.md", "ledger-ws/README.md"],
  ["debug an error", "troubleshooting.md", "operations.md"],
];

const library = await openLibrary({ own: true, folders: [] }, root);

for (const [question, ...pages] of questions) {
  test(`"${question}" finds its page within three hits`, async () => {
    const urls = (await library.search(question, 3)).map(({ url }) => url.replace(/#.*/, ""));
    assert.ok(
      pages.some((page) => urls.some((url) => url.endsWith(page))),
      `found ${urls.join(", ")}`,
    );
  });
}
