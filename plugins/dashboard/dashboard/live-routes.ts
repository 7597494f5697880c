import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { sendInvalidQuery, sendJson, sendRefusal } from "./answer.ts";
import { queryOf } from "./input.ts";
import { live } from "./live.ts";
import { filterNames, readFilter } from "./live-filter.ts";
import type { DashboardDeps } from "./deps.ts";
import type { AddRoute } from "./route.ts";

const maxNames = 1_000;
/** Time for which the name of a key is cached. The page asks every two seconds. */
const nameMs = 60_000;

export function liveRoutes(add: AddRoute, deps: DashboardDeps): void {
  const { clock } = deps;
  const { admin } = deps.accounts;
  const names = new BoundedMap<string, { readonly name: string | undefined; until: number }>(
    maxNames,
  );
  const nameOf = async (id: string): Promise<string | undefined> => {
    const known = names.get(id);
    if (known !== undefined && clock.now() < known.until) return known.name;
    const name = (await admin.findKey(id))?.name;
    names.set(id, { name, until: clock.now() + nameMs });
    return name;
  };
  add("GET", "live", async ({ only }, request, reply) => {
    const query = queryOf(request.url, filterNames);
    if (query === undefined) {
      return sendInvalidQuery(reply, filterNames.join(", "));
    }
    const read = await readFilter(query, admin, only);
    if ("wrong" in read) {
      return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message: read.wrong });
    }
    return sendJson(reply, 200, await live(deps, { only, filter: read.value }, nameOf));
  });
}
