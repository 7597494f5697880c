/** Databases with all tables of the shipped modules. */
import { createHash } from "node:crypto";
import { DatabaseError } from "pg";
import { createSeal } from "../../src/store/seal.ts";
import { upgrade } from "../plugins/billing/shipping/fixture.ts";
import { createDatabase, isOwnServer, runSql, type Ending } from "./servers.ts";

const noSuchDatabase = "3D000";
const nameIsTaken = "42P04";

/**
 * Creates a database with all tables, which belongs to `secret` and is dropped after the test. Returns its URL. On the
 * server of the run it copies a database that the first caller has upgraded, because a copy takes less time.
 */
export async function createUpgradedDatabase(t: Ending, secret: string): Promise<string> {
  if (!isOwnServer) {
    const url = await createDatabase(t);
    await upgrade(url, createSeal(secret));
    return url;
  }
  const template = `upgraded_${createHash("sha256").update(secret).digest("hex").slice(0, 32)}`;
  try {
    return await createDatabase(t, template);
  } catch (error) {
    if (codeOf(error) !== noSuchDatabase) throw error;
  }
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  const server = new URL(url);
  server.pathname = "/postgres";
  const rename = `ALTER DATABASE ${new URL(url).pathname.slice(1)} RENAME TO ${template}`;
  await runSql(server.href, rename).catch((error: unknown) => {
    // Another test file has been faster.
    if (codeOf(error) !== nameIsTaken) throw error;
  });
  return createDatabase(t, template);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof DatabaseError ? error.code : undefined;
}
