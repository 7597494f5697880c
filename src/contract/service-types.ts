/** The types of all services, by name. */
import type { GatewayInfo } from "./gateway.ts";
import type { DocumentedRoute } from "./routes.ts";
import type { StartedTools } from "./started-tools.ts";
import type { Upstreams } from "./upstream.ts";

/**
 * Services by name, for `host.use`. A plugin of kind `service` adds its own type by declaration merging:
 * `declare module "sluice-gateway/plugin" { interface ServiceTypes { "acme-store": AcmeStore } }`.
 */
export interface ServiceTypes {
  gateway: GatewayInfo;
  /** The routes of this generation. The list is not complete while plugins start. */
  routes: readonly DocumentedRoute[];
  /** The plugins of kind `tools`, in the order of pipeline.yaml. */
  tools: readonly StartedTools[];
  upstreams: Upstreams;
}
export type ServiceName = keyof ServiceTypes & string;
