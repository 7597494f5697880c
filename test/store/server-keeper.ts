/** Runs one PostgreSQL for all test files of a test run. Its text is the URL of the server. */
import { keepForRun } from "../run-share.ts";
import { startPostgres } from "./postgres-server.ts";
import { packagedPostgres } from "./programs.ts";

await keepForRun(async () => {
  const server = await startPostgres(await packagedPostgres());
  return { text: server.url, close: () => server[Symbol.asyncDispose]() };
});
