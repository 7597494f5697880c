/** Table of the work that one of several gateways does for all, and the index that the usage export uses. */
import type { Migration } from "sluice-gateway/postgres";

/** `holder` does the work until `until`, in milliseconds since 1970. `position`: the progress of the work. */
const tables = `
CREATE TABLE sluice.jobs (
  name text PRIMARY KEY, holder text NOT NULL, until bigint NOT NULL, position text
);
CREATE INDEX charges_by_replica ON sluice.charges (replica, seq);
`;

export const exportMigrations: readonly Migration[] = [{ name: "usage export", sql: tables }];
