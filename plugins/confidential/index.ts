/** Surface `confidential`: what belongs to the encrypted stream and is no stream: tickets, evidence, receipts, policy. */
import { defineSurface, type Host, type Principal, type SurfaceHooks } from "sluice-gateway/plugin";
import { showEvidence, showPolicy } from "./documents.ts";
import { showReceipt } from "./receipt.ts";
import { issueTicket } from "./ticket.ts";

declare module "sluice-gateway/plugin" {
  interface Slots {
    principal: Principal;
  }
}

interface Options {
  readonly do: "ticket" | "evidence" | "receipt" | "policy";
}

const ticketBytes = 16_384;

export default defineSurface<Options>({
  name: "confidential",
  description: "Tickets for browsers, evidence, receipts and the policy of the encrypted stream.",
  options: {
    type: "object",
    properties: {
      do: {
        description:
          "What the route is for. evidence: its path has `{digest}`; receipt: `{session}` and `{rid}`.",
        enum: ["ticket", "evidence", "receipt", "policy"] satisfies Options["do"][],
      },
    },
    required: ["do"],
    additionalProperties: false,
  },
  wants: { principal: "answer" },
  start: (options, host) => surfaces[options.do](host),
});

const surfaces: Readonly<Record<Options["do"], (host: Host) => SurfaceHooks>> = {
  ticket: ({ tickets }) => ({
    body: { bytes: ticketBytes, types: ["application/json"] },
    answer: (x) => issueTicket(x, tickets),
  }),
  evidence: ({ confidential }) => ({ answer: (x) => showEvidence(x, confidential) }),
  receipt: ({ confidential }) => ({ answer: (x) => showReceipt(x, confidential) }),
  policy: ({ confidential }) => ({ answer: () => showPolicy(confidential) }),
};
