import { defineService, type JsonSchema } from "sluice-gateway/plugin";
import { integerSchema } from "sluice-gateway/internal/toolkit";
import type { ActiveOptions } from "./start.ts";

/** The section `alerts` of pipeline.yaml after validation, with defaults. */
interface Options {
  readonly alerts: Omit<ActiveOptions, "url" | "secret"> & {
    readonly url?: string;
    readonly secret?: string;
  };
}

const alertsSchema: JsonSchema = {
  type: "object",
  description: "Posts signed events to a webhook of the operator.",
  additionalProperties: false,
  default: {},
  dependentRequired: { url: ["secret"] },
  properties: {
    url: {
      type: "string",
      format: "http-url",
      description: "URL to which the alerts are posted. Without it, nothing is watched or sent.",
    },
    secret: {
      type: "string",
      // 24 to 64 bytes, the sizes that Standard Webhooks allows.
      pattern:
        "^whsec_(?=[A-Za-z0-9+/=]{32,88}$)([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
      description:
        "Key that signs the alerts: `whsec_` and 24 to 64 bytes in base64. Required if `url` is set.",
    },
    minFreePercent: integerSchema(
      10,
      [1, 99],
      "An alert is sent if less than this part of the disk of the data folder is free, in percent.",
    ),
    stuckAfter: {
      type: "string",
      format: "short-duration",
      default: "15m",
      description:
        "An alert is sent if a charge waits longer than this for its delivery to the billing system.",
    },
  },
};

export const sections = { alerts: alertsSchema };

export default defineService<Options, undefined>({
  name: "alerts",
  description:
    "Posts signed events to a webhook: limits, ejected backends, failed reloads, a stuck export, a full disk.",
  runsOnce: true,
  sections,
  uses: ["gateway"],
  usesIfInstalled: ["accounts", "metering"],
  permissions: { deployment: ["store", "claims"] },
  dryRun: () => undefined,
  async start({ alerts }, host, context) {
    const { url, secret } = alerts;
    if (url === undefined || secret === undefined) return { service: undefined };
    const { startAlerts } = await import("./start.ts");
    return { service: undefined, ...startAlerts({ ...alerts, url, secret }, host, context) };
  },
});
