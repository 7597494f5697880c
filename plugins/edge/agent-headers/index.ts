/** Reads who the agent behind a request says it is: the X-Agent-* headers, bounded and made safe to log. */
import { defineStep, type Agent, type Exchange } from "sluice-gateway/plugin";

declare module "sluice-gateway/plugin" {
  interface Slots {
    /** Absent when the client sent none of the headers. */
    agent: Agent;
  }
}

/** Characters of one value; what is longer is cut. */
const mostChars = 128;
/** Of X-Agent-Capabilities: more, or longer ones, are left out or cut. */
const mostCapabilities = 16;
const mostCapabilityChars = 64;

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
  start: () => ({
    requestHeaders(x) {
      const agent = agentOf(x.request.headers);
      if (agent !== undefined) x.set("agent", agent);
    },
  }),
});

function agentOf(headers: Exchange["request"]["headers"]): Agent | undefined {
  const name = clean(headers["x-agent-name"]);
  const version = clean(headers["x-agent-version"]);
  const sessionId = clean(headers["x-agent-session-id"]);
  const provider = clean(headers["x-agent-provider"]);
  const capabilities = listed(headers["x-agent-capabilities"]);
  if (
    name === undefined &&
    version === undefined &&
    sessionId === undefined &&
    provider === undefined &&
    capabilities === undefined
  ) {
    return undefined;
  }
  return { name, version, sessionId, provider, capabilities };
}

function listed(value: string | string[] | undefined): readonly string[] | undefined {
  if (value === undefined) return undefined;
  // Cut before it is split: a header may be as long as all headers together.
  const text = String(value).slice(0, 2 * mostCapabilities * mostCapabilityChars);
  const parts = text.split(",").flatMap((part) => clean(part, mostCapabilityChars) ?? []);
  return parts.length === 0 ? undefined : parts.slice(0, mostCapabilities);
}

/**
 * Visible ASCII and spaces, trimmed; anything else becomes `?`: nothing here can forge a line or a terminal's colours.
 */
function clean(value: string | string[] | undefined, most = mostChars): string | undefined {
  if (value === undefined) return undefined;
  const text = String(value).trim().slice(0, most).trimEnd();
  return text === "" ? undefined : text.replaceAll(/[^\x20-\x7e]/g, "?");
}
