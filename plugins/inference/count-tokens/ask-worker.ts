/** Lets a worker count the tokens of a request. */
import type { Exchange } from "sluice-gateway/plugin";
import type {
  InferenceCall,
  InferenceRequest,
  InferenceResult,
  Offer,
} from "sluice-gateway/services";

/**
 * Resolves the number of tokens. Undefined if no worker has counted them, or if the count cannot be right. Never rejects.
 */
export function countAtWorker(
  x: Exchange,
  offer: Offer,
  request: Pick<InferenceRequest, "api" | "body" | "imageTokens">,
): Promise<number | undefined> {
  return new Promise((resolve) => {
    const end = (result: InferenceResult | undefined): void => {
      x.onAbort = undefined;
      const isCounted = result !== undefined && !result.usage.estimated;
      resolve(isCounted ? result.usage.promptTokens : undefined);
    };
    const call: InferenceCall = offer.send(
      { ...request, streamed: false, promptBytes: 0, maxTokens: 0 },
      { onChoice() {}, onRead() {}, onEnd: end, onError: () => end(undefined) },
    );
    x.onAbort = {
      aborted() {
        call.abort();
        resolve(undefined);
      },
    };
  });
}
