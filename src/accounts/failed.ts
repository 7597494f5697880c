/** How an operation on accounts says that it was not done. */

/**
 * `notFound`: no such workspace or key; `conflict`: it is not in a state that allows this. The message is for people.
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
