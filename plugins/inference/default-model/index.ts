/** Step `default-model`: sends requests for models that no network lists to one that is listed. */
import { defineStep, isObject } from "sluice-gateway/plugin";
import { maxRequestBytes } from "../completions/answer.ts";
import { withExactIntegers } from "../completions/exact-integers.ts";

interface Options {
  readonly model?: string;
}

export default defineStep<Options>({
  name: "default-model",
  description: "Replaces the names of models that no network lists.",
  options: {
    type: "object",
    properties: {
      model: {
        description:
          "Model that answers for names that no network lists. Without it, nothing is replaced.",
        type: "string",
        minLength: 1,
      },
    },
    additionalProperties: false,
  },
  uses: ["networks"],
  permissions: { body: "write" },
  start({ model }, host) {
    const networks = host.use("networks");
    if (model === undefined) return {};
    return {
      bodyBytes: maxRequestBytes,
      json: true,
      requestBody(x) {
        const json = x.json();
        if (!json.ok || !isObject(json.value) || networks.unread()) return;
        const { model: name } = json.value;
        if (typeof name !== "string" || networks.find(name) !== undefined) return;
        const members = withExactIntegers(json.value, x.body);
        x.replaceBody(Buffer.from(JSON.stringify({ ...members, model })));
      },
    };
  },
});
