/**
 * The plugin contract: everything that a plugin may know about Sluice.
 *
 * A request runs down an ordered list of **steps** to a **surface** that answers it, and the answer runs back up the
 * same steps. The order is written in `pipeline.yaml` and nowhere else. A plugin is a plain object: first a manifest
 * (name, options, the slots that it needs and provides), then `start`, which returns its hooks. The contract has no
 * `next()`, no priorities and no base class. Only a step that must begin and end together with the surface's answer
 * wraps the surface (`around`). The plugins that ship with Sluice and third-party plugins use the same file, exported
 * as `sluice-gateway/plugin`.
 */
import type { Service } from "./contract/service.ts";
import type { Step } from "./contract/step.ts";
import type { Surface } from "./contract/surface.ts";
import type { ToolsPlugin } from "./contract/tools.ts";

export type * from "./contract/answer.ts";
export type * from "./contract/called.ts";
export type * from "./contract/clock.ts";
export type * from "./contract/compute.ts";
export type * from "./contract/exchange.ts";
export type * from "./contract/gateway.ts";
export type * from "./contract/heads.ts";
export type * from "./contract/hook-counts.ts";
export type * from "./contract/host.ts";
export type * from "./contract/memory.ts";
export type * from "./contract/json.ts";
export type * from "./contract/log.ts";
export type * from "./contract/manifest.ts";
export type * from "./contract/metrics.ts";
export type * from "./contract/operation.ts";
export type * from "./contract/permissions.ts";
export type * from "./contract/phase.ts";
export type * from "./contract/replicas.ts";
export type * from "./contract/reply.ts";
export type * from "./contract/routes.ts";
export * from "./contract/service.ts";
export type * from "./contract/service-types.ts";
export type * from "./contract/session.ts";
export type * from "./contract/slots.ts";
export type * from "./contract/started-tools.ts";
export type { OptionsOf } from "./contract/options-of.ts";
export * from "./contract/step.ts";
export type * from "./contract/sql.ts";
export type * from "./contract/storage.ts";
export type * from "./contract/store.ts";
export * from "./contract/surface.ts";
export type * from "./contract/threads.ts";
export * from "./contract/tools.ts";
export type * from "./contract/trace.ts";
export type * from "./contract/upstream.ts";
export type * from "./contract/upstream-failure.ts";
export { contractVersion } from "./contract/version.ts";
export type * from "./base/errors.ts";
export { gatewayErrors, refuse } from "./base/errors.ts";
export { readRequest as readJsonRpc } from "./http/json/request.ts";
export { isObject } from "./base/is-object.ts";
export { parseJson } from "./base/parse-json.ts";
export { redact } from "./base/redact.ts";
export { violationsSchema } from "./base/violations.ts";

export type Plugin = Step<never> | Surface<never> | ToolsPlugin<never> | Service<never>;
