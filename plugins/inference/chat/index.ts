/**
 * Surface `chat`: chat completions in OpenAI's wire format. A worker of the inference networks answers them, and the
 * tokens that it counts are charged.
 */
import {
  defineSurface,
  refuse,
  type Awaitable,
  type Clock,
  type Exchange,
  type Reply,
} from "sluice-gateway/plugin";
import type { Networks, Offer } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/toolkit";
import { notFoundMessage } from "../model-not-found.ts";
import { isUnknownNetwork } from "../network-in-path.ts";
import { sessionKey } from "../session-key.ts";
import { createCompletion, noteCompletion, type AcceptedRequest } from "./completion.ts";
import { complete } from "./completion-reader.ts";
import { chatError, type ChatErrorCode } from "./errors.ts";
import { ignoredCounter, withIgnoredFields } from "./ignored-fields.ts";
import { operation } from "./operation.ts";
import { readChatRequest, withoutExtraBody } from "./request.ts";
import { StreamedCompletion } from "./streamed-completion.ts";
import { tracedOffer } from "./traced-offer.ts";
import { WholeCompletion } from "./whole-completion.ts";

/** decisions.md section 4. */
const bodyBytes = 10 * 1024 * 1024;

export default defineSurface({
  name: "chat",
  description: "Serves chat completions from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  uses: ["networks"],
  operation: () => operation,
  start(_, host) {
    const { clock, metrics } = host;
    const networks = host.use("networks");
    const parts = { networks, clock, countIgnored: ignoredCounter(metrics) };
    return {
      body: { bytes: bodyBytes, types: ["application/json"], normalize: withoutExtraBody },
      answer: (x) => answer(x, parts),
    };
  },
});

interface ChatParts {
  readonly networks: Networks;
  readonly clock: Clock;
  readonly countIgnored: (ignored: readonly string[]) => void;
}

function answer(x: Exchange, parts: ChatParts): Awaitable<Reply | undefined> {
  const { networks } = parts;
  const { network } = x.request.params;
  if (isUnknownNetwork(network, networks)) return refuse("GATEWAY_NOT_FOUND");
  const json = x.json();
  if (!json.ok) return chatError("INVALID_REQUEST", { message: "the body is not JSON" });
  const parsed = readChatRequest(json.value, (model) => networks.find(model, network)?.prompt);
  if (!parsed.ok) return chatError("INVALID_REQUEST", { message: parsed.message });
  const offer = networks.find(parsed.request.model, network);
  const session = offer?.usesSessions === true ? sessionKey(x, parsed.session) : undefined;
  // An answer may take minutes and a prompt may be long, so nothing keeps the body after it has been sent.
  const { body, ...rest } = parsed.request;
  const request = { ...rest, session };
  x.dropBody();
  parts.countIgnored(request.ignored);
  return andThen(
    reserve(x, parts, offer, request, body),
    (reply) => reply && withIgnoredFields(reply, request.ignored),
  );
}

function reserve(
  x: Exchange,
  { networks, clock }: ChatParts,
  offer: Offer | undefined,
  request: AcceptedRequest,
  body: Buffer,
): Awaitable<Reply | undefined> {
  const { network } = x.request.params;
  const charge = x.get("charge");
  // The name of a model can be any text, so one that is not listed is not reported.
  const isListed = offer !== undefined;
  const report = { kind: "model", name: isListed ? request.model : "other", isListed } as const;
  const refused = (code: ChatErrorCode, message?: string): Reply => {
    x.called({ ...report, code });
    return chatError(code, message === undefined ? {} : { message });
  };
  if (offer === undefined && !networks.unread(network)) {
    return refused("MODEL_NOT_FOUND", notFoundMessage(request.model, network));
  }
  x.note("upstream", offer?.network);
  if (offer === undefined || offer.activeWorkers === 0) return refused("MODEL_NOT_AVAILABLE");
  const tokens = request.maxPromptTokens + (request.maxTokens ?? offer.maxOutputTokens);
  const reserving = charge.reserve(offer.maxMilliCu(tokens), { streamed: request.stream });
  return andThen(reserving, (refusal) => {
    if (refusal !== undefined) {
      x.called({ ...report, code: refusal.code });
      return refusal;
    }
    const completion = createCompletion(x, request, charge, clock);
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
