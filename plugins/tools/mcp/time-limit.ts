/** How long a prompt or a document may take: as long as a tool (decisions.md section 6). */
import type { Clock } from "sluice-gateway/plugin";

const timeoutMs = 30_000;

/** What `begun` comes to. Rejects when that takes too long. */
export async function withTimeLimit<T>(clock: Clock, begun: T | Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  using _timer = clock.after(timeoutMs, () => late.reject(new Error("no answer within 30 s")));
  return await Promise.race([begun, late.promise]);
}
