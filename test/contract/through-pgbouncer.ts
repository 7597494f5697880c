/** Runs a suite against PostgreSQL, and again through PgBouncer. */
import { after, before, describe, test } from "node:test";
import { findProgram, systemProgram } from "../store/programs.ts";
import { createDatabase, openPgBouncer } from "../store/servers.ts";

/**
 * `run`: declares the tests. Its second parameter returns the port through which the stores connect, or undefined for
 * the port of the server. Without the program, the second run is one test that is skipped or fails.
 */
export function describeWithPgBouncer(
  name: string,
  run: (name: string, port: () => number | undefined) => void,
): void {
  run(name, () => undefined);
  const program = findProgram("pgbouncer");
  if (program === undefined) {
    test(`${name}, PgBouncer`, (t) => void systemProgram(t, "pgbouncer"));
    return;
  }
  describe("through PgBouncer", () => {
    let bouncer: Awaited<ReturnType<typeof openPgBouncer>> | undefined;
    before(async () => {
      bouncer = await openPgBouncer(program, await createDatabase({ after: () => {} }));
    });
    after(async () => bouncer?.[Symbol.asyncDispose]());
    run(`${name}, PgBouncer`, () => Number(new URL(bouncer?.url ?? "").port));
  });
}
