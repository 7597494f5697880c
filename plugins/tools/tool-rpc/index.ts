/** The catalogue of tools as JSON-RPC 2.0, single calls and arrays (gateway.md, POST /rpc). */
import {
  defineSurface,
  readJsonRpc,
  refuse,
  type Exchange,
  type Host,
  type JsonRpcItem,
  type MemoryHold,
  type Reply,
} from "sluice-gateway/plugin";
import type { ToolCaller } from "sluice-gateway/services";
import { confirmationStatus, errorText, maxArrayChars, maxItems } from "../json-rpc-texts.ts";
import { codes, invalidRequest } from "./error-codes.ts";
import { operationOf } from "./operation.ts";
import {
  createRequestHandler,
  protocolReport,
  type RpcAnswer,
  type RequestHandler,
} from "./request-handler.ts";

/** decisions.md sections 4 and 6. */
const bodyBytes = 1024 * 1024;
const parallelCalls = 4;

const headers: readonly string[] = ["content-type", "application/json"];
const noContent: Reply = { status: 204 };
const noBody = Buffer.alloc(0);

export default defineSurface({
  name: "tool-rpc",
  description:
    "Serves the tools as JSON-RPC 2.0: tools.list and tools.call, as single calls and arrays.",
  needs: { principal: "answer", charge: "answer" },
  wants: { requestId: "answer", trace: "answer" },
  uses: ["tool-catalogue"],
  operation: (_, __, host) => operationOf(host.use("tool-catalogue").list, maxItems),
  start(_, host) {
    const requests = createRequestHandler(host.use("tool-catalogue"));
    return {
      body: { bytes: bodyBytes, types: ["application/json"] },
      answer: (x) => answer(host, requests, x),
    };
  },
});

function answer(host: Host, requests: RequestHandler, x: Exchange): Reply | Promise<Reply> {
  const principal = x.get("principal");
  // Reached only if `authorize` is missing or in shadow mode. An anonymous caller cannot be charged.
  if (principal.kind === "anonymous") return refuse("GATEWAY_UNAUTHORIZED");
  const caller: ToolCaller = {
    principal,
    requestId: x.peek("requestId") ?? "",
    charge: x.get("charge"),
    signal: x,
    trace: x.peek("trace"),
    calls: x,
  };
  const body = readJsonRpc(x.body ?? noBody, maxItems);
  if (body.kind === "single") return single(requests, body.item, caller);
  if (body.kind === "batch") {
    return batch(requests, body.items, caller, host.memory.hold(principal.key.id, "result"));
  }
  if (body.kind === "malformed") {
    x.called(protocolReport("", "PARSE_ERROR"));
    return ok(errorText("null", { code: codes.parseError, message: "Parse error" }));
  }
  x.called(protocolReport("", "INVALID_REQUEST"));
  return ok(errorText("null", invalidRequest));
}

function single(
  requests: RequestHandler,
  item: JsonRpcItem,
  caller: ToolCaller,
): Reply | Promise<Reply> {
  const answered = requests.answer(item, caller);
  return answered instanceof Promise ? answered.then(replyOf) : replyOf(answered);
}

function replyOf({ text, failure }: RpcAnswer): Reply {
  if (failure?.code === "GATEWAY_CU_LIMIT_EXCEEDED") {
    // decisions.md section 4: the only refusal of a call with an HTTP status on every surface.
    const { message, details = {} } = failure;
    return refuse("GATEWAY_CU_LIMIT_EXCEEDED", { message, details });
  }
  if (text === "") return noContent;
  const status = failure === undefined ? undefined : confirmationStatus[failure.code];
  return status === undefined ? ok(text) : { ...ok(text, status), code: failure?.code };
}

/** Each call reserves credit when it runs and fails separately. Answers have the order of the requests. */
async function batch(
  requests: RequestHandler,
  items: readonly JsonRpcItem[],
  caller: ToolCaller,
  held: MemoryHold,
): Promise<Reply> {
  using _held = held;
  const texts: string[] = items.map(() => "");
  let next = 0;
  let chars = 0;
  let isFull = false;
  const runCalls = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) {
      const item = items[at];
      if (item === undefined) continue;
      if (isFull) {
        texts[at] = requests.refuseOversized(item, caller).text;
        continue;
      }
      const { text } = await requests.answer(item, caller);
      isFull ||= chars + text.length > maxArrayChars || !held.resize(chars + text.length);
      texts[at] = isFull ? requests.oversized(item).text : text;
      if (!isFull) chars += text.length;
    }
  };
  await Promise.all(Array.from({ length: parallelCalls }, runCalls));
  const answers = texts.filter((text) => text !== "");
  return answers.length === 0 ? noContent : ok(`[${answers.join(",")}]`);
}

function ok(body: string, status = 200): Reply {
  return { status, headers, body };
}
