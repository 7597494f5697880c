/** A chat request. */
import type { StepExample } from "sluice-gateway/testing";

const messages = [{ role: "user", content: "Write to ada@acme.test." }];
export default { request: { body: { model: "m", messages } } } satisfies StepExample;
