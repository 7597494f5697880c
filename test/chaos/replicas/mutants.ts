/** Wrong versions of `credit_post`. If the campaign misses one, it would also miss the same mistake in the code. */
import { runSql } from "../../store/servers.ts";

interface Mutant {
  readonly removed: string;
  readonly statement?: string;
}

const comparison = " AND posted = p_first - 1";

export const mutants = {
  /** A batch that is sent again breaks the primary key of the charges, so the replica can post nothing more. */
  "no comparison": { removed: comparison },
  /** A batch that is sent again counts again. */
  "no comparison, no primary key": {
    removed: comparison,
    statement: "ALTER TABLE sluice.charges DROP CONSTRAINT charges_pkey",
  },
  /** A replica posts charges although its credit was given to others. */
  "no fence": { removed: " AND (state = 'live' OR mode = 'local')" },
} as const satisfies Record<string, Mutant>;

export type MutantName = keyof typeof mutants;

export const mutantNames = Object.keys(mutants) as readonly MutantName[];

export async function applyMutant(url: string, name: MutantName): Promise<void> {
  const { removed, statement = "SELECT" }: Mutant = mutants[name];
  const [row] = await runSql(
    url,
    "SELECT pg_get_functiondef('sluice.credit_post'::regproc) AS text",
  );
  const text = String(row?.["text"]);
  if (text.split(removed).length !== 2) throw new Error(`credit_post does not have "${removed}"`);
  await runSql(url, statement, text.replace(removed, ""));
}
