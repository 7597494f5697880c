/**
 * The catalogue of tools over the Model Context Protocol (streamable HTTP). The body of a request determines which of
 * three protocols answers it: plain, with sessions or stateless. Between requests, the process keeps only the questions
 * of running calls and the log levels of sessions.
 */
import { defineSurface, refuse, type Exchange, type Host, type Reply } from "sluice-gateway/plugin";
import { toolReport, type ToolOutcome } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import {
  creditRefusal,
  reportMethod,
  runTool,
  timestamp,
  type McpCall,
  type McpServer,
} from "./mcp-call.ts";
import { createStatelessDialogues } from "./stateless-dialogue.ts";
import { createRequestGuard } from "./request-guard.ts";
import {
  codes,
  errorReply,
  failureCode,
  invalidRequest,
  jsonHeaders,
  type Params,
} from "./json-rpc.ts";
import { followLogLevels } from "./log-levels.ts";
import { precomputeResults } from "./precomputed-results.ts";
import { confirmationStatus } from "../json-rpc-texts.ts";
import { perList } from "../per-list.ts";
import { createSessionQuestions } from "./session-questions.ts";
import { operationAt } from "./operation.ts";
import { answerSessionArray, answerSessionMessage } from "./session-protocol.ts";
import { lostSession, sessionOf } from "./session-headers.ts";
import { createSessions } from "./sessions.ts";
import { isStateless, answerStatelessMessage } from "./stateless-protocol.ts";
import { failedResult, plainFrame, toolResult } from "./tool-result.ts";

interface Options {
  readonly name: string;
  readonly title: string;
  readonly instructions: string;
  readonly origins?: readonly string[];
  readonly hosts?: readonly string[];
}

/** decisions.md section 4. */
const bodyBytes = 1024 * 1024;

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");
const sessionEnded: Reply = { status: 204 };

export default defineSurface<Options>({
  name: "mcp",
  description: "Serves the catalogue of tools to agents over the Model Context Protocol.",
  options: {
    type: "object",
    properties: {
      name: {
        description: "Name of the server: a reverse domain name, a slash and a name.",
        type: "string",
        pattern: "^[A-Za-z0-9.-]+/[A-Za-z0-9._-]+$",
        default: "local.sluice/gateway",
      },
      title: {
        description: "Name of the server for people.",
        type: "string",
        minLength: 1,
        default: "Sluice",
      },
      instructions: {
        description: "Text for the model, in addition to the descriptions of the tools.",
        type: "string",
        minLength: 1,
        default:
          "A call costs the caller's workspace compute units (CU). The member estimatedCUMilli in _meta of a tool is its price in thousandths of a CU. A tool that changes something first returns a preview and a confirmation_token. Show the preview to the user. If the user agrees, call the tool again with the token.",
      },
      origins: {
        description:
          "Origins of the pages that may call this endpoint, such as https://app.example.com. Default: pages on loopback.",
        type: "array",
        items: { type: "string", pattern: "^[a-z][a-z0-9+.-]*://[^/]+$" },
      },
      hosts: {
        description:
          "Host names under which clients may reach this endpoint (`Host` without the port). Default: loopback names for clients on this machine, any name for others.",
        type: "array",
        items: { type: "string", minLength: 1 },
      },
    },
    additionalProperties: false,
  },
  needs: { principal: "answer", charge: "answer" },
  wants: { requestId: "answer", trace: "answer" },
  uses: ["tool-catalogue"],
  permissions: { deployment: ["store", "seal", "claims"] },
  operation: (_, place, host) => operationAt(place, host.use("tool-catalogue").list),
  start(options, host) {
    const server = createServer(options, host);
    const refusalOf = createRequestGuard(options);
    const { replicas } = host.store;
    const levels = replicas && followLogLevels(replicas);
    return {
      body: { bytes: bodyBytes, json: true },
      answer: (x) => refusalOf(x.request) ?? answer(server, x),
      stop() {
        server.sessionQuestions.stop();
        levels?.[Symbol.dispose]();
      },
    };
  },
});

function createServer({ name, title, instructions }: Options, host: Host): McpServer {
  const { clock, seal, store } = host;
  const tools = host.use("tool-catalogue");
  const serverInfo = { name, title, version: host.version };
  const results = perList(tools, () => precomputeResults(tools, serverInfo, instructions));
  const writes = perList(tools, (list) => {
    return new Set(list.filter((entry) => entry.write).map((entry) => entry.name));
  });
  return {
    host,
    clock,
    tools,
    sessions: createSessions(host),
    dialogues: createStatelessDialogues(host),
    sessionQuestions: createSessionQuestions({ clock, seal, replicas: store.replicas }),
    get results() {
      return results();
    },
    resources: new Map(tools.resources.map((resource) => [resource.uri, resource])),
    get writes() {
      return writes();
    },
  };
}

function answer(server: McpServer, x: Exchange): Reply | undefined | Promise<Reply | undefined> {
  const principal = x.get("principal");
  // Reached only if `authorize` is missing or in shadow mode.
  if (principal.kind !== "key") return unauthorized;
  const call: McpCall = { server, x, principal, charge: x.get("charge") };
  const reply = x.request.method === "DELETE" ? endSession(call) : answerBody(call, x);
  return reply instanceof Promise
    ? reply.then((late) => reported(call, late))
    : reported(call, reply);
}

function reported(call: McpCall, reply: Reply | undefined): Reply | undefined {
  const code = failureCode(reply);
  if (code !== undefined && call.x.calls === undefined) reportMethod(call, "", code);
  return reply;
}

function answerBody(call: McpCall, x: Exchange): Reply | Promise<Reply | undefined> {
  const body = x.json();
  if (!body.ok) return errorReply(400, "null", { code: codes.parse, message: "Parse error" });
  const { value } = body;
  if (Array.isArray(value)) {
    return value.some(isStateless)
      ? errorReply(400, "null", invalidRequest)
      : answerSessionArray(call, value);
  }
  if (!isObject(value)) return errorReply(400, "null", invalidRequest);
  if (!("jsonrpc" in value) && "tool" in value) return answerPlainCall(call, value);
  return isStateless(value)
    ? answerStatelessMessage(call, value)
    : answerSessionMessage(call, value);
}

/** The plain protocol: `{ tool, input, confirmation_token? }` is answered with the plain result. */
function answerPlainCall(call: McpCall, body: Params): Reply | Promise<Reply> {
  const { tool, input = {}, confirmation_token: token } = body;
  if (typeof tool !== "string") return malformed(call, "tool must be a string");
  if (token !== undefined && typeof token !== "string") {
    return malformed(call, "confirmation_token must be a string");
  }
  const outcome = runTool(call, { tool, input, confirmationToken: token });
  return outcome instanceof Promise
    ? outcome.then((late) => plainReply(call, late))
    : plainReply(call, outcome);
}

function plainReply(call: McpCall, outcome: ToolOutcome): Reply {
  call.x.called(toolReport(outcome));
  const refusal = creditRefusal(outcome);
  if (refusal !== undefined) return refusal;
  const body = toolResult(outcome, plainFrame, timestamp(call.server));
  const status = outcome.ok ? undefined : confirmationStatus[outcome.code];
  if (outcome.ok || status === undefined) return { status: 200, headers: jsonHeaders, body };
  return { status, headers: jsonHeaders, body, code: outcome.code };
}

function malformed(call: McpCall, message: string): Reply {
  reportMethod(call, "tools/call", "GATEWAY_INVALID_PARAMS");
  const body = failedResult("GATEWAY_INVALID_PARAMS", message, plainFrame);
  return { status: 200, headers: jsonHeaders, body };
}

/** The store keeps the session as ended until its token would have expired. */
async function endSession(call: McpCall): Promise<Reply> {
  const session = sessionOf(call, call.x.request.headers["mcp-session-id"]);
  if (session === undefined) {
    return errorReply(400, "null", { ...invalidRequest, message: "Mcp-Session-Id is missing" });
  }
  if (session === "lost") return lostSession("null");
  await call.server.sessions.end(session);
  return sessionEnded;
}
