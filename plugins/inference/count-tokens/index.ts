/**
 * Surface `count-tokens`: the prompt tokens of a request of the Messages API. A worker counts them if it can, else they
 * are estimated. Both are free.
 */
import { defineSurface, refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { InferenceResult, Networks, Offer } from "sluice-gateway/services";
import { maxRequestBytes } from "../completions/answer.ts";
import { errorReply } from "../completions/error-reply.ts";
import { completionError, type CompletionErrorCode } from "../completions/errors.ts";
import { createReasoningSeal, type ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { CompletionRequest } from "../completions/request.ts";
import { requestFor, type NativeApi } from "../completions/native-request.ts";
import { renderError, renderRefusal, requestIdHeader } from "../messages/errors.ts";
import { nativeMessages } from "../messages/native.ts";
import { readMessagesRequest } from "../messages/request.ts";
import { notFoundMessage } from "../model-not-found.ts";
import { isUnknownNetwork } from "../network-in-path.ts";
import { countOperation } from "./operation.ts";

/** Few texts have more tokens than a third of their bytes. */
const bytesPerToken = 3;
/** The tokens that a chat template adds to a message: its role and some marks. */
const tokensPerMessage = 8;

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
      answer: (x) => answer(x, networks, seal),
      renderRefusal,
    };
  },
});

async function answer(x: Exchange, networks: Networks, seal: ReasoningSeal): Promise<Reply> {
  const { network } = x.request.params;
  if (isUnknownNetwork(network, networks)) return refuse("GATEWAY_NOT_FOUND");
  const failed = (code: CompletionErrorCode, message?: string): Reply =>
    errorReply({ renderError }, x, completionError(code, message === undefined ? {} : { message }));
  const json = x.json();
  if (!json.ok) return failed("INVALID_REQUEST", "the body is not JSON");
  let offer: Offer | undefined;
  const promptOptionsOf = (model: string) => (offer = networks.find(model, network))?.prompt;
  const read = readMessagesRequest(json.value, x, { promptOptionsOf, seal, isCounted: true });
  if (!read.ok) return failed("INVALID_REQUEST", read.message);
  const { model, promptBytes, imageTokens } = read.request;
  if (offer === undefined) {
    if (networks.unread(network)) return failed("MODEL_NOT_AVAILABLE");
    return failed("MODEL_NOT_FOUND", notFoundMessage(model, network));
  }
  const headers = ["content-type", "application/json", ...requestIdHeader(x)];
  const request = requestFor(offer, nativeCount, json.value, read.request);
  const counted = request.api === undefined ? undefined : await countAtWorker(x, offer, request);
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
  offer: Offer,
  { api, body, imageTokens }: CompletionRequest,
): Promise<number | undefined> {
  return new Promise((resolve) => {
    const end = (result?: InferenceResult): void => {
      x.onAbort = undefined;
      resolve(result?.usage.estimated === false ? result.usage.promptTokens : undefined);
    };
    const call = offer.send(
      { api, body, imageTokens, streamed: false, promptBytes: 0, maxTokens: 0 },
      { onChoice() {}, onRead() {}, onEnd: end, onError: () => end() },
    );
    x.onAbort = {
      aborted() {
        call.abort();
        end();
      },
    };
  });
}
