/**
 * Surface `embeddings`: OpenAI's embeddings. A worker of the inference networks computes them, and the tokens of the
 * inputs are charged.
 */
import { defineSurface } from "sluice-gateway/plugin";
import { completionSurface } from "../completions/answer.ts";
import { embeddingsApi, renderRefusal } from "./api.ts";
import { operation } from "./operation.ts";

export default defineSurface({
  name: "embeddings",
  description: "Serves embeddings from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  uses: ["networks"],
  operation: () => operation,
  start: (_, host) => ({ ...completionSurface(embeddingsApi, host, []), renderRefusal }),
});
