/** Surface `confidential`: the HTTP routes of the encrypted stream, for tickets, evidence, receipts and the policy. */
import { defineSurface, type Host, type SurfaceHooks } from "sluice-gateway/plugin";
import { servePolicy, showEvidence } from "./documents.ts";
import { operations } from "./operation.ts";
import type { ConfidentialOptions } from "./options.ts";
import { showReceipt } from "./receipt.ts";
import { issueTicket } from "./ticket.ts";

const ticketBytes = 16_384;

export default defineSurface<ConfidentialOptions>({
  name: "confidential",
  description: "Serves the tickets, receipts, evidence and signed policy of the encrypted stream.",
  options: {
    type: "object",
    properties: {
      do: {
        description:
          "Action of the route. The path must contain `{digest}` for evidence, and `{session}` and `{rid}` for receipt.",
        enum: ["ticket", "evidence", "receipt", "policy"] satisfies ConfidentialOptions["do"][],
      },
      document: {
        description:
          "For policy: a file signed by `sluice policy sign`, relative to pipeline.yaml. Default: this gateway signs the policy that is configured in pipeline.yaml.",
        type: "string",
        minLength: 1,
      },
    },
    required: ["do"],
    additionalProperties: false,
  },
  wants: { principal: "answer" },
  uses: ["accounts", "confidential-relay"],
  operation: ({ do: wanted }) => operations[wanted],
  start: (options, host) => surfaces[options.do](host, options),
});

const surfaces: Readonly<
  Record<
    ConfidentialOptions["do"],
    (host: Host, options: ConfidentialOptions) => SurfaceHooks | Promise<SurfaceHooks>
  >
> = {
  ticket(host) {
    const { tickets } = host.use("accounts");
    return {
      body: { bytes: ticketBytes, types: ["application/json"] },
      answer: (x) => issueTicket(x, tickets),
    };
  },
  evidence(host) {
    const relay = host.use("confidential-relay");
    return { answer: (x) => showEvidence(x, relay) };
  },
  receipt(host) {
    const relay = host.use("confidential-relay");
    return { answer: (x) => showReceipt(x, relay) };
  },
  policy: servePolicy,
};
