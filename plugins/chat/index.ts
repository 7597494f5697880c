/**
 * Surface `chat`: chat completions in OpenAI's wire format, answered by a worker of the inference networks and charged
 * by the tokens that the worker counts.
 */
import {
  defineSurface,
  refuse,
  type Charge,
  type Clock,
  type Exchange,
  type Networks,
  type Reply,
  type TraceSpan,
} from "sluice-gateway/plugin";
import { createCompletion } from "./completion.ts";
import { chatError, type ChatErrorCode } from "./errors.ts";
import { operation } from "./operation.ts";
import { readChatRequest } from "./request.ts";
import { streamCompletion } from "./streamed.ts";
import { tracedOffer } from "./traced-offer.ts";
import { wholeCompletion } from "./whole.ts";

declare module "sluice-gateway/plugin" {
  interface Slots {
    charge: Charge;
    trace: TraceSpan;
  }
}

/** decisions.md section 4. */
const bodyBytes = 10 * 1024 * 1024;

export default defineSurface({
  name: "chat",
  description: "Answers chat completions from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  operation: () => operation,
  start: (_, { networks, clock }) => ({
    body: { bytes: bodyBytes, types: ["application/json"] },
    answer: (x) => answer(x, networks, clock, x.get("charge")),
  }),
});

function answer(
  x: Exchange,
  networks: Networks,
  clock: Clock,
  charge: Charge,
): Reply | Promise<Reply | undefined> {
  // The route's path may pin the network: `/{network}/v1/chat/completions`.
  const { network } = x.request.params;
  if (network !== undefined && !networks.names.includes(network))
    return refuse("GATEWAY_NOT_FOUND");
  const json = x.json();
  if (!json.ok) return chatError("INVALID_REQUEST", { message: "the body is not JSON" });
  const reading = readChatRequest(json.value);
  if (!reading.ok) return chatError("INVALID_REQUEST", { message: reading.message });
  // An answer may take minutes, and a prompt be long: nothing here holds it beyond the sending.
  const { body, ...request } = reading.request;
  x.dropBody();
  const offer = networks.find(request.model, network);
  const report = { kind: "model", name: request.model, isListed: offer !== undefined } as const;
  const refused = (code: ChatErrorCode): Reply => {
    x.called({ ...report, code });
    return chatError(code);
  };
  if (offer === undefined && !networks.unread(network)) return refused("MODEL_NOT_FOUND");
  if (offer === undefined || offer.activeWorkers === 0) return refused("MODEL_NOT_AVAILABLE");
  const tokens = request.promptTokensMost + (request.maxTokens ?? offer.maxOutputTokens);
  const refusal = charge.reserve(offer.mostMilli(tokens), { streamed: request.stream });
  if (refusal !== undefined) {
    x.called({ ...report, code: refusal.code });
    return refusal;
  }
  const completion = createCompletion(x, request, charge);
  const trace = x.peek("trace");
  const used = trace === undefined ? offer : tracedOffer(offer, trace, completion, clock);
  const complete = request.stream ? streamCompletion : wholeCompletion;
  return complete(completion, body, used).then((reply) => {
    x.called({ ...report, code: reply?.code ?? completion.brokenBy });
    return reply;
  });
}
