/** Credit is reserved before the work and charged after it, and the charge is on disk before the answer ends. */
import { defineStep } from "sluice-gateway/plugin";
import { createCommitReplies } from "./commit-replies.ts";
import { ExchangeCharge, type ExchangeChargeDeps } from "./exchange-charge.ts";
import { createReserver, createShadowRefusals } from "./reserve.ts";

interface Options {
  readonly price?: number;
}

/** gateway.md, "CU-limit details". */
const limitDetails = {
  type: "object",
  properties: {
    window: {
      description: "Full rolling window of the key; missing if the amount of the plan is used up.",
      enum: ["24h", "30d"],
    },
    used_cu_milli: {
      description: "Charged and reserved credit in milli-CU.",
      type: "integer",
      minimum: 0,
    },
    limit_cu_milli: { type: "integer", minimum: 0 },
  },
  required: ["used_cu_milli", "limit_cu_milli"],
  additionalProperties: false,
};

export default defineStep<Options, ExchangeCharge>({
  name: "meter",
  description: "Reserves and charges credit units; answers 429 if a limit is reached.",
  options: {
    type: "object",
    properties: {
      price: {
        description:
          "Price in milli-CU of every request that the surface answers with a status below 500. Default: the surface sets the price.",
        type: "integer",
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
      },
    },
    additionalProperties: false,
  },
  needs: { principal: "requestHeaders" },
  wants: { requestId: "requestHeaders", agent: "requestHeaders" },
  provides: { charge: "requestHeaders" },
  uses: ["metering"],
  operation: () => ({
    refusals: [
      {
        code: "GATEWAY_CU_LIMIT_EXCEEDED",
        description: "A credit limit has been reached.",
        details: limitDetails,
      },
      {
        code: "GATEWAY_SERVICE_UNAVAILABLE",
        description: "Charges cannot be written at the moment.",
      },
    ],
    answerHeaders: {
      "X-Used-CU-Milli": {
        description: "Charge of the request in milli-CU; missing on streams and refusals.",
        schema: { type: "integer", minimum: 0 },
      },
    },
  }),
  start({ price }, host) {
    const countShadowRefusal = createShadowRefusals(host);
    const deps: ExchangeChargeDeps = {
      reserver: createReserver(host, countShadowRefusal),
      commits: createCommitReplies(host, countShadowRefusal),
      // With PostgreSQL, a reservation sometimes has to wait. Surfaces that do not wait for it must not pass tests.
      taken: (result) => (host.strict ? Promise.resolve(result) : result),
    };
    return {
      createState: (x) => new ExchangeCharge(deps, x),
      requestHeaders(x, charge) {
        x.set("charge", charge);
        return price === undefined ? undefined : charge.reserve(price);
      },
      responseHeaders(x, head, charge) {
        const answered = head.from === "surface";
        if (price !== undefined && answered && head.status < 500) {
          charge.settle([{ method: `${x.request.method} ${x.route.path}`, costMilliCu: price }]);
        }
        if (answered && !head.streamed && head.code === undefined) {
          head.set("x-used-cu-milli", String(charge.usedMilliCu ?? 0));
        }
      },
      responseEnd: (_x, _outcome, charge) => charge.written(),
      settled(x, _outcome, charge) {
        charge.release();
        // A charge that could not be written is not charged.
        if (x.facts.costMilliCu !== charge.usedMilliCu) x.note("costMilliCu", charge.usedMilliCu);
      },
    };
  },
});
