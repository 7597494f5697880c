/** The limit is the same as for a tool (decisions.md section 6). */
import type { Clock } from "sluice-gateway/plugin";

const timeoutMs = 30_000;

export async function withTimeLimit<T>(clock: Clock, begun: T | Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  using _timer = clock.after(timeoutMs, () => late.reject(new Error("no answer within 30 s")));
  return await Promise.race([begun, late.promise]);
}
