import type { ChangeAuthor, KeyRecord, WindowState } from "sluice-gateway/services";
import { sendInvalidQuery, sendJson, sendRefusal } from "./answer.ts";
import { addChange, refused, refusedAs, type ChangeWork, type Outcome } from "./change.ts";
import { pageOf, queryOf } from "./input.ts";
import type { AddRoute, Handler } from "./route.ts";
import type { DashboardDeps } from "./deps.ts";
import { largestShare, readRows } from "./rows-by-use.ts";
import { isOutside, type Viewer } from "./session.ts";
import { perMinute } from "./rates.ts";
import { limited } from "./workspace-rate.ts";
import { limitsOf, mayGrant, readKeyChange, readRotation, readWantedKey } from "./wanted-key.ts";

const maxKeys = 100;
const maxTextLength = 100;

export function keyRoutes(add: AddRoute, deps: DashboardDeps): void {
  add("GET", "keys", list(deps));
  const message = `the keys of a workspace can change ${perMinute.keyChanges} times a minute`;
  const addLimited = limited(add, deps.workspaceRates.keyChanges, message);
  const change = (path: string, work: ChangeWork): void =>
    addChange(addLimited, deps, path, (viewer, request, by) =>
      work(viewer, request, { ...by, maxActiveKeys: maxActiveKeys(deps, viewer) }),
    );
  change("keys", (viewer, request, by) => create(deps, viewer, request.body, by));
  change("keys/:id/edit", ofKey(deps, edit));
  change("keys/:id/rotate", ofKey(deps, rotate));
  change("keys/:id/revoke", ofKey(deps, revoke));
}

/** The plan limits the keys that administrators of the workspace make. */
function maxActiveKeys({ accounts }: DashboardDeps, viewer: Viewer): number | undefined {
  const { only, workspace } = viewer;
  if (only === undefined || workspace === undefined) return undefined;
  return accounts.admin.plan(workspace.plan).maxKeys;
}

function list(deps: DashboardDeps): Handler {
  return async (viewer, request, reply) => {
    const { metering, clock } = deps;
    const { admin } = deps.accounts;
    const query = queryOf(request.url, ["q", "workspace", "state", "sort", "page"]);
    const { q: text = "", workspace, state = "active", sort = "newest" } = query ?? {};
    const page = pageOf(query?.["page"]);
    if (
      query === undefined ||
      page === undefined ||
      text.length > maxTextLength ||
      !["active", "all"].includes(state) ||
      !["newest", "use"].includes(sort)
    ) {
      const expected = "q, workspace, state=active or all, sort=newest or use, and page";
      return sendInvalidQuery(reply, expected);
    }
    if (isOutside(viewer, workspace)) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    const now = clock.now();
    const workspaceId = viewer.only ?? workspace;
    const activeAt = state === "active" ? now : undefined;
    const { rows: keys, ...more } = await readRows({
      page,
      pageRows: maxKeys,
      isByUse: sort === "use",
      search: async (range) => admin.searchKeys({ workspaceId, text, activeAt, ...range }),
      async row({ key, workspaceName }) {
        const { day, month, openMilliCu } = await metering.keyWindows(key);
        return {
          ...admin.keyJson(key),
          workspace_name: workspaceName,
          rotated_to: key.rotatedTo,
          windows: { "24h": windowJson(day, openMilliCu), "30d": windowJson(month, openMilliCu) },
          /** True if this viewer may rotate and revoke the key. */
          manageable: viewer.mayChange && mayGrant(viewer.only, key.capabilities),
        };
      },
      share: ({ windows }) =>
        largestShare(
          Object.values(windows).map((window) => [
            window.used_cu_milli + window.reserved_cu_milli,
            window.limit_cu_milli,
          ]),
        ),
    });
    return sendJson(reply, 200, { keys, page, ...more });
  };
}

function windowJson(
  { usedMilliCu, limitMilliCu, freesAt, roomAt, emptyAt }: WindowState,
  openMilliCu: number,
) {
  return {
    used_cu_milli: usedMilliCu,
    reserved_cu_milli: openMilliCu,
    limit_cu_milli: limitMilliCu,
    frees_at: time(freesAt),
    room_at: time(roomAt),
    empty_at: time(emptyAt),
  };
}

const grantRefused = refused(
  "GATEWAY_PERMISSION_DENIED",
  "only a platform administrator can grant platform:admin",
);

async function create(
  deps: DashboardDeps,
  viewer: Viewer,
  body: unknown,
  by: ChangeAuthor,
): Promise<Outcome> {
  const read = readWantedKey(body);
  if ("wrong" in read) return refused("GATEWAY_SCHEMA_VIOLATION", read.wrong);
  const wanted = read.value;
  if (isOutside(viewer, wanted.workspace_id)) return refused("GATEWAY_NOT_FOUND");
  if (!mayGrant(viewer.only, wanted.capabilities)) return grantRefused;
  const { admin } = deps.accounts;
  const issued = await admin.createKey(
    {
      workspaceId: wanted.workspace_id,
      name: wanted.name,
      environment: deps.environment,
      capabilities: wanted.capabilities,
      ...limitsOf<never>(wanted, by.at),
    },
    by,
  );
  if ("failed" in issued) return refusedAs(issued);
  return { status: 201, body: { key: admin.keyJson(issued.key) }, once: { secret: issued.text } };
}

type KeyWork = (
  deps: DashboardDeps,
  key: KeyRecord,
  body: unknown,
  by: ChangeAuthor,
  viewer: Viewer,
) => Promise<Outcome>;

/** A key does not exist for viewers who may not change it. */
function ofKey(deps: DashboardDeps, work: KeyWork): ChangeWork {
  return async (viewer, request, by) => {
    const { id } = request.params as { id: string };
    const key = await deps.accounts.admin.findKey(id);
    if (key === undefined || isOutside(viewer, key.workspaceId))
      return refused("GATEWAY_NOT_FOUND");
    // After a rotation, the viewer would have a key with capabilities for the whole deployment.
    if (!mayGrant(viewer.only, key.capabilities)) {
      const message = "this key is a platform administrator's to change";
      return refused("GATEWAY_PERMISSION_DENIED", message);
    }
    return work(deps, key, request.body, by, viewer);
  };
}

const edit: KeyWork = async ({ accounts: { admin } }, key, body, by, viewer) => {
  const read = readKeyChange(body);
  if ("wrong" in read) return refused("GATEWAY_SCHEMA_VIOLATION", read.wrong);
  const wanted = read.value;
  if (!mayGrant(viewer.only, wanted.capabilities ?? [])) return grantRefused;
  const changed = await admin.setKey(
    key.id,
    {
      name: wanted.name,
      capabilities: wanted.capabilities,
      ...limitsOf(wanted, by.at),
    },
    by,
  );
  if ("failed" in changed) return refusedAs(changed);
  return { status: 200, body: { key: admin.keyJson(changed) } };
};

const rotate: KeyWork = async ({ accounts: { admin } }, key, body, by) => {
  const read = readRotation(body);
  if ("wrong" in read) return refused("GATEWAY_SCHEMA_VIOLATION", read.wrong);
  const issued = await admin.rotateKey(key.id, read.value.overlap_seconds * 1000, by);
  if ("failed" in issued) return refusedAs(issued);
  return {
    status: 201,
    body: { key: admin.keyJson(issued.key), replaced: admin.keyJson(issued.replaced) },
    once: { secret: issued.text },
  };
};

const revoke: KeyWork = async ({ accounts: { admin } }, key, _, by) => {
  const revoked = await admin.revokeKey(key.id, by);
  if ("failed" in revoked) return refusedAs(revoked);
  return { status: 200, body: { key: admin.keyJson(revoked) } };
};

function time(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
