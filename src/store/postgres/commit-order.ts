/**
 * The time of the database in milliseconds since 1970. Tests replace it.
 *
 * `number_in_commit_order` numbers the rows of a table. A sequence alone is not enough: a transaction may take its
 * number first and commit last, and a replica that reads the rows after the last number that it knows would never see
 * its row. The lock makes the second transaction wait for the end of the first one.
 */
export const commonFunctions = `
CREATE OR REPLACE FUNCTION sluice.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
$$;
CREATE FUNCTION sluice.number_in_commit_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(TG_ARGV[1]::bigint);
  RETURN jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[0], nextval(TG_ARGV[2]::regclass)));
END $$;
`;

/** `lock`: a number that no other table uses. */
export function commitOrder(table: string, column: string, lock: number): string {
  return `
CREATE SEQUENCE sluice.${table}_${column} OWNED BY sluice.${table}.${column};
CREATE TRIGGER ${table}_in_commit_order BEFORE INSERT ON sluice.${table} FOR EACH ROW
  WHEN (NEW.${column} IS NULL)
  EXECUTE FUNCTION sluice.number_in_commit_order('${column}', ${lock}, 'sluice.${table}_${column}');
`;
}
