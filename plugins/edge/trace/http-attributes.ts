/**
 * The conventions for HTTP servers (https://opentelemetry.io/docs/specs/semconv/http/http-spans/), those for agents,
 * and attributes of the gateway itself, which start with `sluice.`. Headers and queries are omitted, because they may
 * contain secrets.
 */
import { redact, type Exchange, type Outcome, type SpanAttributes } from "sluice-gateway/plugin";
import { clientScheme } from "sluice-gateway/internal/http";
import type { Agent } from "sluice-gateway/services";

/** Other methods are `_OTHER`, so that clients cannot create arbitrary values. */
const methods: ReadonlySet<string> = new Set([
  "CONNECT",
  "DELETE",
  "GET",
  "HEAD",
  "OPTIONS",
  "PATCH",
  "POST",
  "PUT",
  "QUERY",
  "TRACE",
]);

export function nameOf(x: Exchange): string {
  const { method } = x.request;
  const route = routeOf(x);
  const name = methods.has(method) ? method : "HTTP";
  return route === undefined ? name : `${name} ${route}`;
}

/** The address must be read now, because the socket loses it when the client disconnects. */
export function startAttributes(x: Exchange): Record<string, string> {
  const { method, path, address } = x.request;
  const known = methods.has(method);
  const route = routeOf(x);
  return {
    "http.request.method": known ? method : "_OTHER",
    ...(!known && { "http.request.method_original": method }),
    ...(route !== undefined && { "http.route": route }),
    "url.scheme": clientScheme(x.request),
    // The path comes from the client and may contain a key, which must not be exported.
    "url.path": path.includes("gateway_") ? redact(path) : path,
    "client.address": address,
  };
}

/** `failed` follows the convention for servers: client errors are not failures. */
export function endAttributes(
  x: Exchange,
  outcome: Outcome,
): { readonly attributes: SpanAttributes; readonly failed: boolean } {
  const { status, bodyBytes, code } = x.sent;
  const { requestId, caller, costMilliCu, agent } = x.facts;
  const broken = outcome === "upstreamFailed" || outcome === "timedOut";
  const failed = status >= 500 || broken;
  const failure = failed ? (broken ? outcome : String(status)) : undefined;
  return {
    failed,
    attributes: {
      "http.response.status_code": status === 0 ? undefined : status,
      "http.response.body.size": bodyBytes,
      "error.type": code ?? failure,
      "sluice.outcome": outcome,
      "sluice.request.id": requestId?.includes("gateway_") === true ? redact(requestId) : requestId,
      "sluice.key.id": caller?.id,
      "sluice.workspace.id": caller?.group,
      "sluice.cu.used_milli": costMilliCu,
      ...agentAttributes(agent),
    },
  };
}

function agentAttributes(agent: Agent | undefined): SpanAttributes | undefined {
  return (
    agent && {
      "gen_ai.agent.name": agent.name,
      "gen_ai.agent.version": agent.version,
      "gen_ai.conversation.id": agent.sessionId,
      "sluice.agent.provider": agent.provider,
      "sluice.agent.capabilities": agent.capabilities,
    }
  );
}

function routeOf(x: Exchange): string | undefined {
  const { path } = x.route;
  return path.startsWith("/") ? path : undefined;
}
