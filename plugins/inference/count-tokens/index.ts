/**
 * Surface `count-tokens`: the prompt tokens of a request of the Messages API. A worker counts them if it can, else they
 * are estimated. Both are free.
 */
import { defineSurface, type Clock, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { InferenceResult, Networks, Offer } from "sluice-gateway/services";
import { maxRequestBytes, readBody, unlistedError } from "../completions/answer.ts";
import { errorReply } from "../completions/error-reply.ts";
import { createReasoningSeal, type ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { CompletionRequest } from "../completions/request.ts";
import { requestFor, type NativeApi } from "../completions/native-request.ts";
import { renderError, renderRefusal, requestIdHeader } from "../messages/errors.ts";
import { nativeMessages } from "../messages/native.ts";
import { readMessagesRequest } from "../messages/request.ts";
import { count, header, objectOf } from "../completions/operation.ts";
import { operationOf } from "../messages/operation.ts";

const countOperation = operationOf(
  "Count or estimate the tokens of a message",
  "The count of a worker if the network speaks `count_tokens`. Else a third of the bytes of all texts and tools, 8 per message, and the network's `imageTokens` per image. It is free.",
  {
    description: "The number of tokens.",
    content: { "application/json": objectOf({ input_tokens: count }) },
    headers: { "X-Sluice-Estimate": header("Members that are estimates.", "input_tokens") },
  },
);

/** Few texts have more tokens than a third of their bytes. */
const bytesPerToken = 3;
/** The tokens that a chat template adds to a message: its role and some marks. */
const tokensPerMessage = 8;
/** Milliseconds. An agent waits for the count, so a silent worker is not waited for longer. */
const countMs = 3_000;

const nativeCount: NativeApi = {
  ...nativeMessages,
  name: "count_tokens",
  adapt: ({ max_tokens: _, stream: __, ...members }, passes) =>
    nativeMessages.adapt(members, passes),
};

export default defineSurface({
  name: "count-tokens",
  description: "Counts or estimates the tokens of a request of the Messages API.",
  wants: { requestId: "answer" },
  uses: ["networks"],
  permissions: { deployment: ["seal"] },
  operation: () => countOperation,
  start(_, host) {
    const networks = host.use("networks");
    const seal = createReasoningSeal(host.seal);
    return {
      body: { bytes: maxRequestBytes, types: ["application/json"] },
      answer: (x) => answer(x, { networks, seal, clock: host.clock }),
      renderRefusal,
    };
  },
});

interface CountDeps {
  readonly networks: Networks;
  readonly seal: ReasoningSeal;
  readonly clock: Clock;
}

async function answer(x: Exchange, { networks, seal, clock }: CountDeps): Promise<Reply> {
  const asked = readBody({ renderError }, x, networks, (body, offered) =>
    readMessagesRequest(body, x, { options: offered?.prompt, seal, isCounted: true }),
  );
  if ("status" in asked) return asked;
  const { body, offer, read } = asked;
  const { model, promptBytes, imageTokens } = read.request;
  if (offer === undefined) {
    const error = unlistedError(networks, model, x.request.params.network);
    return errorReply({ renderError }, x, error);
  }
  const headers = ["content-type", "application/json", ...requestIdHeader(x)];
  const request = requestFor(offer, nativeCount, body, read.request);
  const counted =
    request.api === undefined ? undefined : await countAtWorker(x, clock, offer, request);
  if (counted !== undefined) {
    return { status: 200, headers, body: JSON.stringify({ input_tokens: counted }) };
  }
  const texts = Math.ceil(promptBytes / bytesPerToken);
  const input_tokens = texts + tokensPerMessage * read.session.messages.length + imageTokens;
  headers.push("x-sluice-estimate", "input_tokens");
  return { status: 200, headers, body: JSON.stringify({ input_tokens }) };
}

/** Resolves to undefined if no worker has counted the tokens, or if the count cannot be right. */
function countAtWorker(
  x: Exchange,
  clock: Clock,
  offer: Offer,
  { api, body, imageTokens }: CompletionRequest,
): Promise<number | undefined> {
  return new Promise((resolve) => {
    const end = (result?: InferenceResult): void => {
      x.onAbort = undefined;
      timer[Symbol.dispose]();
      resolve(result?.usage.estimated === false ? result.usage.promptTokens : undefined);
    };
    const giveUp = (): void => {
      call.abort();
      end();
    };
    const timer = clock.after(countMs, giveUp);
    const call = offer.send(
      { api, body, imageTokens, streamed: false, promptBytes: 0, maxTokens: 0 },
      { onChoice() {}, onRead() {}, onEnd: end, onError: () => end() },
    );
    x.onAbort = { aborted: giveUp };
  });
}
