/**
 * The call path of all APIs for models: read the request, reserve its maximum cost, send it to a worker, render the
 * answer, and charge the tokens that the worker counts.
 */
import {
  refuse,
  type Awaitable,
  type Clock,
  type Exchange,
  type Host,
  type Reply,
  type SurfaceHooks,
} from "sluice-gateway/plugin";
import type { Networks, Offer } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/toolkit";
import { notFoundMessage, notSpokenMessage } from "../model-not-found.ts";
import { isUnknownNetwork } from "../network-in-path.ts";
import { sessionKey } from "../session-key.ts";
import type { CompletionApi, CompletionParts } from "./api.ts";
import { createCompletion, noteCompletion } from "./completion.ts";
import { complete } from "./completion-reader.ts";
import { errorReply } from "./error-reply.ts";
import { completionError, type CompletionErrorCode } from "./errors.ts";
import { ignoredCounter, withIgnoredFields } from "./ignored-fields.ts";
import { requestFor } from "./native-request.ts";
import { StreamedCompletion } from "./streamed-completion.ts";
import { tracedOffer } from "./traced-offer.ts";
import { WholeCompletion } from "./whole-completion.ts";

/** Maximum size of a request in bytes (decisions.md section 4). */
export const maxRequestBytes = 10 * 1024 * 1024;

interface CompletionDeps {
  readonly networks: Networks;
  readonly clock: Clock;
  /** Called with the names of the members of a request that are ignored. */
  readonly countIgnored: (ignored: readonly string[]) => void;
}

/**
 * Returns the surface of an API. `counted`: the names of ignored members that are counted; by default those of chat
 * completions.
 */
export function completionSurface(
  api: CompletionApi,
  host: Host,
  counted?: readonly string[],
): Required<Pick<SurfaceHooks, "body" | "answer">> {
  const countIgnored = ignoredCounter(host.metrics, counted);
  const deps = { networks: host.use("networks"), clock: host.clock, countIgnored };
  return {
    body: { bytes: maxRequestBytes, types: ["application/json"] },
    answer: (x) => answer(api, x, deps),
  };
}

/** Answers a request. Returns undefined after a stream, or if the client has disconnected. */
function answer(
  api: CompletionApi,
  x: Exchange,
  deps: CompletionDeps,
): Awaitable<Reply | undefined> {
  const { networks, clock, countIgnored } = deps;
  const { network } = x.request.params;
  if (isUnknownNetwork(network, networks)) return refuse("GATEWAY_NOT_FOUND");
  const json = x.json();
  const invalid = (details: Parameters<typeof completionError>[1]): Reply =>
    errorReply(api, x, completionError("INVALID_REQUEST", details));
  if (!json.ok) return invalid({ message: "the body is not JSON" });
  let offer: Offer | undefined;
  const read = api.read(json.value, (model) => (offer = networks.find(model, network))?.prompt, x);
  if (!read.ok) {
    const { message, param, apiCode } = read;
    return invalid({ message, param, apiCode });
  }
  const session = offer?.usesSessions === true ? sessionKey(x, read.session) : undefined;
  const { body, ...rest } = requestFor(offer, api.native, json.value, read.request);
  // The body that is sent to the worker counts as the body of the exchange until the worker answers.
  x.replaceBody(body);
  countIgnored(rest.ignored);
  const { renderer } = read;
  const accepted = { x, api, renderer, request: { ...rest, session }, clock };
  return andThen(
    reserve(accepted, networks, offer, body),
    (reply) => reply && withIgnoredFields(reply, rest.ignored),
  );
}

function reserve(
  accepted: CompletionParts,
  networks: Networks,
  offer: Offer | undefined,
  body: Buffer,
): Awaitable<Reply | undefined> {
  const { x, api, request, clock } = accepted;
  const { network } = x.request.params;
  const charge = x.get("charge");
  const report = { kind: "model", name: request.model, isListed: offer !== undefined } as const;
  const refused = (code: CompletionErrorCode, message?: string): Reply => {
    x.called({ ...report, code });
    return errorReply(api, x, completionError(code, message === undefined ? {} : { message }));
  };
  if (offer === undefined && !networks.unread(network)) {
    return refused("MODEL_NOT_FOUND", notFoundMessage(request.model, network));
  }
  x.note("upstream", offer?.network);
  if (offer !== undefined && request.api !== undefined && !offer.speaks.includes(request.api)) {
    return refused("MODEL_NOT_FOUND", notSpokenMessage(request.api, offer.network));
  }
  if (offer === undefined || offer.activeWorkers === 0) return refused("MODEL_NOT_AVAILABLE");
  const maxTokens = request.maxTokens ?? offer.maxOutputTokens;
  const maxMilliCu = offer.maxMilliCu(request.maxPromptTokens, maxTokens);
  const reserving = charge.reserve(maxMilliCu, { streamed: request.stream });
  return andThen(reserving, (refusal) => {
    if (refusal !== undefined) {
      x.called({ ...report, code: refusal.code });
      return refusal;
    }
    const completion = createCompletion(accepted, charge);
    noteCompletion(completion, undefined);
    const trace = x.peek("trace");
    const chosen = trace === undefined ? offer : tracedOffer(offer, trace, completion, clock);
    const Reader = request.stream ? StreamedCompletion : WholeCompletion;
    return complete(Reader, completion, body, chosen).then((reply) => {
      x.called({ ...report, code: reply?.code ?? completion.brokenBy });
      return reply;
    });
  });
}
