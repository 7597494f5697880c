/**
 * Surface `messages`: the Messages API of Anthropic, without state. Requests are translated to chat completions, which
 * workers of the inference networks answer, and the tokens that they count are charged.
 */
import { defineSurface } from "sluice-gateway/plugin";
import { answerCompletion, maxRequestBytes } from "../completions/answer.ts";
import { ignoredCounter } from "../completions/ignored-fields.ts";
import { createReasoningSeal } from "../completions/sealed-reasoning.ts";
import { createMessagesApi } from "./api.ts";
import { renderRefusal } from "./errors.ts";
import { knownNames } from "./ignored-names.ts";
import { messagesOperation } from "./operation.ts";

export default defineSurface({
  name: "messages",
  description: "Serves the Messages API from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer", requestId: "answer" },
  uses: ["networks"],
  permissions: { deployment: ["seal"] },
  operation: () => messagesOperation,
  start(_, host) {
    const networks = host.use("networks");
    const countIgnored = ignoredCounter(host.metrics, knownNames);
    const deps = { networks, clock: host.clock, countIgnored };
    const api = createMessagesApi(createReasoningSeal(host.seal));
    return {
      body: { bytes: maxRequestBytes, types: ["application/json"] },
      answer: (x) => answerCompletion(api, x, deps),
      renderRefusal,
    };
  },
});
