/** Results of operations on accounts that failed. */

/**
 * `notFound`: the workspace or key does not exist. `conflict`: its state does not allow the operation. The message is
 * for people.
 */
export interface Failed {
  readonly failed: "notFound" | "conflict";
  readonly message: string;
}

export function notFound(what: "workspace" | "key", id: string): Failed {
  return { failed: "notFound", message: `there is no ${what} ${id}` };
}

export function conflict(message: string): Failed {
  return { failed: "conflict", message };
}
