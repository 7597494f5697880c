/** An address, because the option is required. */
import type { StepExample } from "sluice-gateway/testing";

export default { options: { resource: "https://gateway.test/mcp" } } satisfies StepExample;
