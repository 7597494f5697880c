import { after, before, describe, test } from "node:test";
import { findProgram, systemProgram } from "../store/programs.ts";
import { createDatabase, openPgBouncer } from "../store/servers.ts";

/**
 * PgBouncer gives each transaction another connection, so code that works through it also works on a direct connection.
 * `run`: declares the tests. Its second parameter returns the port through which the stores connect. Without the program,
 * they connect to the server, and one further test is skipped or fails.
 */
export function describeWithPgBouncer(
  name: string,
  run: (name: string, port: () => number | undefined) => void,
): void {
  const program = findProgram("pgbouncer");
  if (program === undefined) {
    run(name, () => undefined);
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
