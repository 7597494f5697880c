/** Revision 2026-07-28: every request says who asks and in which revision, its headers repeat it, nothing is remembered. */
import type { Reply } from "sluice-gateway/plugin";
import {
  answered,
  creditRefusal,
  finish,
  progressStream,
  runTool,
  timestamp,
  type Call,
} from "./call.ts";
import { askedAgain, inputRequired, takesForms } from "./confirmation.ts";
import {
  accepted,
  codes,
  failed,
  idAsSent,
  invalidParams,
  invalidRequest,
  isObject,
  messageOf,
  methodNotFound,
  resultText,
  type Message,
  type Params,
} from "./json-rpc.ts";
import { readResource } from "./resources.ts";
import { metaKeys } from "./revisions.ts";
import { statelessFault } from "./stateless-rules.ts";
import { failedResult, toolResult, type ResultFrame } from "./tool-result.ts";

type Request = Extract<Message, { kind: "request" }> & { readonly params: Params };

/** Lists change with a reload only. `private`: they are for whoever holds a key. */
const cacheable = `"ttlMs":60000,"cacheScope":"private"`;

/** Whether a message is of this lane: its `params._meta` names a revision. */
export function isStateless(message: unknown): boolean {
  if (!isObject(message) || !isObject(message["params"])) return false;
  const meta = message["params"]["_meta"];
  return isObject(meta) && metaKeys.version in meta;
}

/** `body`: one for which `isStateless` holds. */
export async function statelessLane(call: Call, body: Params): Promise<Reply | undefined> {
  const message = messageOf(body, () => idAsSent(call.server.host, call.x.body, undefined));
  if (message.kind === "invalid") return failed(400, "null", invalidRequest);
  if (message.kind !== "request" || !isObject(message.params)) return accepted;
  const { id, method, params } = message;
  const fault = statelessFault(call.x.request.headers, method, params);
  if (fault !== undefined) return failed(400, id, fault);
  if (method === "tools/call") return callTool(call, { ...message, params });
  return plainMethod(call, { ...message, params });
}

async function plainMethod(call: Call, { id, method, params }: Request): Promise<Reply> {
  const { lists, resources } = call.server;
  const list = (members: string): Reply => {
    if (params["cursor"] !== undefined) {
      return failed(400, id, invalidParams("there is one page and no cursor"));
    }
    return answered(call, resultText(id, complete(call, `${members},${cacheable}`)));
  };
  if (method === "server/discover") return list(lists.discover);
  if (method === "tools/list") return list(lists.tools);
  if (resources.size > 0) {
    if (method === "resources/list") return list(lists.resources);
    if (method === "resources/templates/list") return list(lists.resourceTemplates);
    if (method === "resources/read") {
      const read = await readResource(call, params, codes.invalidParams);
      return read.ok ? list(read.members) : failed(400, id, read.failure);
    }
  }
  return failed(404, id, methodNotFound);
}

/** The result object around these members. */
function complete({ server }: Call, members: string): string {
  return `{"resultType":"complete",${members},"_meta":{${server.lists.server}}}`;
}

/** Closing the connection is this revision's cancellation. A write tool may ask its user first. */
async function callTool(call: Call, { id, params }: Request): Promise<Reply | undefined> {
  const { name: tool, arguments: input = {} } = params;
  if (typeof tool !== "string") return failed(400, id, invalidParams("name must be a string"));
  const { server } = call;
  const frame: ResultFrame = {
    head: `"resultType":"complete",`,
    meta: `,${server.lists.server}`,
    links: true,
  };
  const isWrite = server.writes.has(tool);
  const said = isWrite ? askedAgain(params) : undefined;
  if (said?.kind === "declined") {
    const declined = failedResult("GATEWAY_PERMISSION_DENIED", "the user declined", frame);
    return answered(call, resultText(id, declined));
  }
  const events = progressStream(call, params);
  const confirmationToken = said?.kind === "confirmed" ? said.token : undefined;
  const outcome = await runTool(call, {
    tool,
    input,
    confirmationToken,
    abortsWithClient: true,
    events,
  });
  const refusal = events?.opened === true ? undefined : creditRefusal(outcome);
  if (refusal !== undefined) return refusal;
  const asks = isWrite && said?.kind !== "cancelled" && takesForms(params);
  const question = asks ? inputRequired(outcome, server.lists.server) : undefined;
  const result = question ?? toolResult(outcome, frame, timestamp(server));
  return finish(call, events, resultText(id, result));
}
