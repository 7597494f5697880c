/** Ids of charges, and the number in PostgreSQL of a charge that comes from a journal. */

/**
 * The number is that of the commit times this, plus the place in the commit. A gateway makes no charge while half as
 * many records wait for the disk. The numbers are exact in JavaScript up to 9 * 10^10 commits, which is almost three
 * years at 1,000 commits per second.
 */
export const placesPerCommit = 100_000;

export interface ChargeId {
  readonly journal: string;
  readonly commit: number;
  /** Index of the charge's record in the commit. */
  readonly place: number;
}

export function parseChargeId(id: string): ChargeId | undefined {
  const [, journal, commit, place] = /^chg_([0-9a-f]+)_(\d{1,15})_(\d{1,9})$/.exec(id) ?? [];
  if (journal === undefined) return undefined;
  return { journal, commit: Number(commit), place: Number(place) };
}

export function numberOf({ commit, place }: Omit<ChargeId, "journal">): number {
  return commit * placesPerCommit + place;
}
