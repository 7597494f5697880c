import type { Failed } from "sluice-gateway/services";

/** An entry of the audit log that is not written yet. */
export interface NewChange {
  readonly action:
    | "workspace.create"
    | "workspace.set"
    | "workspace.upgrade"
    | "workspace.downgrade"
    | "workspace.cancel-downgrade"
    | "workspace.purchase"
    | "key.create"
    | "key.set"
    | "key.revoke"
    | "key.rotate"
    | "network.models";
  /** Missing for a change of the deployment. */
  readonly workspaceId?: string;
  readonly keyId?: string;
  readonly details?: object;
}

/** The new state, which must be stored together with the entries of the audit log. Without entries nothing changes. */
export interface Decision<T> {
  readonly value: T;
  readonly changes: readonly NewChange[];
}

export function notFound(what: "workspace" | "key", id: string): Failed {
  return { failed: "notFound", message: `there is no ${what} ${id}` };
}

export function conflict(message: string): Failed {
  return { failed: "conflict", message };
}

export function isFailed(result: object): result is Failed {
  return "failed" in result;
}
