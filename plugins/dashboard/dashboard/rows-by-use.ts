/**
 * Reads one page of rows, newest first or those first that have used most of their limits. The use is not in the store
 * of the rows, so the second order needs the use of every row. It therefore covers only the newest rows.
 */

const maxOrdered = 500;

export interface RowPage<R> {
  readonly rows: readonly R[];
  readonly has_more: boolean;
  /** Number of rows that were ordered, if there are more. */
  readonly ordered_only?: number;
}

export interface RowSource<F, R> {
  readonly page: number;
  readonly pageRows: number;
  readonly isByUse: boolean;
  /** Returns rows of the store, newest first. */
  readonly search: (range: {
    readonly skip: number;
    readonly limit: number;
  }) => Promise<readonly F[]>;
  readonly row: (found: F) => Promise<R>;
  /** Undefined without a limit. */
  readonly share: (row: R) => number | undefined;
}

export async function readRows<F, R>(source: RowSource<F, R>): Promise<RowPage<R>> {
  const { page, pageRows, isByUse, search, row, share } = source;
  const limit = isByUse ? maxOrdered : pageRows;
  const found = await search({ skip: isByUse ? 0 : page * pageRows, limit: limit + 1 });
  const rows = await Promise.all(found.slice(0, limit).map(row));
  const hasMore = found.length > limit;
  if (!isByUse) return { rows, has_more: hasMore };
  const shareOf = (each: R): number => share(each) ?? -1;
  const ordered = rows.toSorted((a, b) => shareOf(b) - shareOf(a));
  const end = (page + 1) * pageRows;
  return {
    rows: ordered.slice(end - pageRows, end),
    has_more: ordered.length > end,
    ...(hasMore && { ordered_only: maxOrdered }),
  };
}

export function largestShare(
  pairs: readonly (readonly [used: number, limit: number | undefined])[],
): number | undefined {
  const shares = pairs.flatMap(([used, limit]) =>
    limit === undefined ? [] : [limit === 0 ? 1 : used / limit],
  );
  return shares.length === 0 ? undefined : Math.max(...shares);
}
