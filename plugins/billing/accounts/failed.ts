/** Results of operations on accounts that failed. */
import type { Failed } from "sluice-gateway/services";

export function notFound(what: "workspace" | "key", id: string): Failed {
  return { failed: "notFound", message: `there is no ${what} ${id}` };
}

export function conflict(message: string): Failed {
  return { failed: "conflict", message };
}
