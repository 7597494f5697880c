/** The X-Agent-* headers, in which an agent describes itself, made safe to log. */
import { defineStep, type Exchange } from "sluice-gateway/plugin";
import type { Agent } from "sluice-gateway/services";

const maxChars = 128;
/** Further entries are discarded, and longer ones are cut. */
const maxCapabilities = 16;
const maxCapabilityChars = 64;

export default defineStep({
  name: "agent-headers",
  description:
    "Reads the X-Agent-* headers, limits and sanitises them, for the log, usage records and traces.",
  provides: { agent: "requestHeaders" },
  operation: () => ({
    headers: {
      type: "object",
      properties: {
        "x-agent-name": {
          description: "Name of the agent.",
          type: "string",
          examples: ["planner"],
        },
        "x-agent-version": {
          description: "Version of the agent.",
          type: "string",
          examples: ["1.2.0"],
        },
        "x-agent-session-id": {
          description: "Id of the agent session.",
          type: "string",
          examples: ["s-1"],
        },
        "x-agent-provider": {
          description: "Provider of the agent.",
          type: "string",
          examples: ["Acme"],
        },
        "x-agent-capabilities": {
          description: "Comma-separated list of capabilities.",
          type: "string",
          examples: ["tools,batch"],
        },
      },
    },
  }),
  permissions: { body: "none" },
  start: () => ({
    requestHeaders(x) {
      const agent = agentOf(x.request.headers);
      if (agent === undefined) return;
      x.set("agent", agent);
      x.note("agent", agent);
    },
  }),
});

function agentOf(headers: Exchange["request"]["headers"]): Agent | undefined {
  const agent = {
    name: clean(headers["x-agent-name"]),
    version: clean(headers["x-agent-version"]),
    sessionId: clean(headers["x-agent-session-id"]),
    provider: clean(headers["x-agent-provider"]),
    capabilities: listed(headers["x-agent-capabilities"]),
  };
  return Object.values(agent).every((value) => value === undefined) ? undefined : agent;
}

function listed(value: string | string[] | undefined): readonly string[] | undefined {
  if (value === undefined) return undefined;
  // Cut before splitting, because a single header may be very long.
  const text = String(value).slice(0, 2 * maxCapabilities * maxCapabilityChars);
  const parts = text.split(",").flatMap((part) => clean(part, maxCapabilityChars) ?? []);
  return parts.length === 0 ? undefined : parts.slice(0, maxCapabilities);
}

/**
 * Replaces everything except visible ASCII and spaces by `?`, so that a value cannot forge a log line or control a
 * terminal.
 */
function clean(value: string | string[] | undefined, max = maxChars): string | undefined {
  if (value === undefined) return undefined;
  const text = String(value).trim().slice(0, max).trimEnd();
  return text === "" ? undefined : text.replaceAll(/[^\x20-\x7e]/g, "?");
}
