/** What a step in shadow mode would have done is counted and logged, never done. */
import type { Reply } from "../../plugin.ts";
import type { PlacedStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";

/** True when the reply must not be sent, because its step only shadows. */
export function shadowed(x: LiveExchange, step: PlacedStep, reply: Reply): boolean {
  if (!step.shadow) return false;
  step.shadowRefusals.add(1);
  (x.shadowed ??= new Set()).add(step.depth);
  const { status, code } = reply;
  x.runtime.log.info(
    { step: step.name, route: x.route.path, status, code, requestId: x.peek("requestId") },
    "shadow: would have replied",
  );
  return true;
}

/** True when the exchange goes on as if the step had not thrown, because it only shadows. */
export function forgiven(x: LiveExchange, step: PlacedStep, error: unknown): boolean {
  if (!step.shadow) return false;
  step.shadowRefusals.add(1);
  (x.shadowed ??= new Set()).add(step.depth);
  x.runtime.log.error(
    { err: error, step: step.name, route: x.route.path, requestId: x.peek("requestId") },
    "shadow: the step failed",
  );
  return true;
}
