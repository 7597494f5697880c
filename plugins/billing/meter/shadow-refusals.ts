/** Counts and logs the requests that `meter` in shadow mode would have refused. */
import type { Counter, Exchange, Host } from "sluice-gateway/plugin";

const scopes = ["plan", "30d", "24h", "unavailable", "anonymous"] as const;
/** The limit that would have refused the request. */
export type ShadowScope = (typeof scopes)[number];
export type CountShadowRefusal = (scope: ShadowScope, x: Exchange) => void;

export function createShadowRefusals({ metrics, log }: Host): CountShadowRefusal {
  const refusals = metrics.counter(
    "sluice_meter_shadow_refusals_total",
    "Requests that `meter` in shadow mode would have refused, by limit.",
    ["scope"],
  );
  const counters = new Map<ShadowScope, Counter>();
  for (const scope of scopes) counters.set(scope, refusals.with({ scope }));
  return (scope, x) => {
    counters.get(scope)?.add(1);
    log.info({ route: x.route.path, scope }, "shadow: meter would have refused");
  };
}
