/** Surface `workspaces`: shows one view of a workspace, or makes one change to it (decisions.md section 10). */
import {
  defineSurface,
  refuse,
  type Exchange,
  type Reply,
  type SurfaceHooks,
} from "sluice-gateway/plugin";
import type { ApiKey, Principal, Workspaces } from "sluice-gateway/services";
import { changes, type ChangeName } from "./changes.ts";
import { operationOf } from "./operation.ts";
import { isView, views, type ViewName } from "./views.ts";

interface Options {
  readonly do: ViewName | ChangeName;
}

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");
const denied = refuse("GATEWAY_PERMISSION_DENIED");
const notFound = refuse("GATEWAY_NOT_FOUND");
/** decisions.md section 4. */
const bodyBytes = 1024 * 1024;

export default defineSurface<Options>({
  name: "workspaces",
  description:
    "Shows a workspace, its usage and its audit log, changes its plan, and sells credit.",
  options: {
    type: "object",
    properties: {
      do: {
        description: "Action of the route. Its path must contain the workspace id as `{id}`.",
        enum: Object.keys({ ...views, ...changes }),
      },
    },
    required: ["do"],
    additionalProperties: false,
  },
  needs: { principal: "answer" },
  wants: { requestId: "answer" },
  uses: ["accounts"],
  operation: ({ do: wanted }) => operationOf(wanted),
  start: ({ do: wanted }, host) =>
    isView(wanted)
      ? showing(wanted, host.use("accounts").workspaces)
      : changing(wanted, host.use("accounts").workspaces),
});

function showing(wanted: ViewName, workspaces: Workspaces): SurfaceHooks {
  const view = views[wanted];
  return {
    answer(x) {
      const { id = "" } = x.request.params;
      const { refused } = caller(x.get("principal"), id);
      return refused ?? view(workspaces, id, x);
    },
  };
}

function changing(wanted: ChangeName, workspaces: Workspaces): SurfaceHooks {
  const change = changes[wanted];
  return {
    body: {
      bytes: bodyBytes,
      json: true,
      ...(!change.takesNothing && { types: ["application/json"] }),
    },
    atomic: true,
    answer(x: Exchange) {
      const { id = "" } = x.request.params;
      const { refused, key } = caller(x.get("principal"), id);
      if (refused !== undefined) return refused;
      const by = { actor: key.id, requestId: x.peek("requestId") ?? "" };
      return change.run(workspaces, id, x, by);
    },
  };
}

/**
 * Returns the key if it administers the platform or this workspace, else the refusal. The workspace of another customer
 * is answered with 404, so that callers cannot find out which ids exist.
 */
function caller(
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
