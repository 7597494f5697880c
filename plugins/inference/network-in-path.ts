import type { Operation } from "sluice-gateway/plugin";
import type { Networks } from "sluice-gateway/services";

export const networkInPath = {
  type: "object",
  properties: { network: { description: "List only models of this network.", type: "string" } },
};

export function networkRefusals(path: string): NonNullable<Operation["refusals"]> {
  return path.includes("{network}")
    ? [{ code: "GATEWAY_NOT_FOUND", description: "The network does not exist." }]
    : [];
}

/** `name`: undefined if the route's path names no network. */
export function isUnknownNetwork(name: string | undefined, { names }: Networks): boolean {
  return name !== undefined && !names.includes(name);
}
