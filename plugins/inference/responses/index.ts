/**
 * Surface `responses`: OpenAI's Responses API without state. A worker of the inference networks answers the requests as
 * chat completions, and the tokens that it counts are charged.
 */
import { defineSurface } from "sluice-gateway/plugin";
import { completionSurface } from "../completions/answer.ts";
import { createReasoningSeal } from "../completions/sealed-reasoning.ts";
import { createResponsesApi, errors } from "./api.ts";
import { operation } from "./operation.ts";
import { countedNames } from "./request.ts";

export default defineSurface({
  name: "responses",
  description: "Serves OpenAI's Responses API from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  uses: ["networks"],
  permissions: { deployment: ["seal"] },
  operation: () => operation,
  start(_, host) {
    const api = createResponsesApi(createReasoningSeal(host.seal));
    const { renderRefusal } = errors;
    return { ...completionSurface(api, host, countedNames), renderRefusal };
  },
});
