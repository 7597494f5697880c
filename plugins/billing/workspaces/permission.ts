/** Who may see and change which workspace. */
import { refuse, type ApiKey, type Principal, type Reply } from "sluice-gateway/plugin";

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");
const denied = refuse("GATEWAY_PERMISSION_DENIED");
const notFound = refuse("GATEWAY_NOT_FOUND");

/**
 * The key of those who administer the platform or this very workspace, else the refusal. Another's workspace is not
 * found, so that nobody learns which ids there are.
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
