/** Nothing listens on this port: the contract suite needs no provider, and its requests are refused. */
import type { StepExample } from "sluice-gateway/testing";

const issuer = "http://127.0.0.1:9";
export default {
  options: { issuer, audience: "gateway", jwks: `${issuer}/keys` },
} satisfies StepExample;
