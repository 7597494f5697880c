/** Surface `chat`: chat completions in OpenAI's wire format. */
import { defineSurface } from "sluice-gateway/plugin";
import { completionSurface } from "../completions/answer.ts";
import { knownMembers } from "../completions/messages.ts";
import { knownFields } from "../completions/passed-fields.ts";
import { withoutExtraBody } from "../completions/request.ts";
import { chatApi } from "./api.ts";
import { operation } from "./operation.ts";

const counted = [...knownFields, ...knownMembers];

export default defineSurface({
  name: "chat",
  description: "Serves chat completions from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  uses: ["networks"],
  operation: () => operation,
  start(_, host) {
    const { body, answer } = completionSurface(chatApi, host, counted);
    return { body: { ...body, normalize: withoutExtraBody }, answer };
  },
});
