/** Decides which keys may access a workspace. */
import { refuse, type Reply } from "sluice-gateway/plugin";
import type { ApiKey, Principal } from "sluice-gateway/services";

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");
const denied = refuse("GATEWAY_PERMISSION_DENIED");
const notFound = refuse("GATEWAY_NOT_FOUND");

/**
 * Returns the key if it administers the platform or this workspace, else the refusal. The workspace of another customer
 * is answered with 404, so that callers cannot find out which ids exist.
 */
export function caller(
  principal: Principal,
  workspaceId: string,
):
  | { readonly refused: Reply; readonly key?: undefined }
  | { readonly refused?: undefined; readonly key: ApiKey } {
  if (principal.kind === "anonymous") return { refused: unauthorized };
  const { key, workspace } = principal;
  if (key.capabilities.has("platform:admin")) return { key };
  if (!key.capabilities.has("workspace:admin")) return { refused: denied };
  return workspace.id === workspaceId ? { key } : { refused: notFound };
}
