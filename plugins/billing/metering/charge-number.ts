/**
 * The number of a charge in PostgreSQL that comes from a journal is the number of its commit times this, plus its place
 * in the commit. The ring that holds a commit has 4 MiB, and a charge takes at least 88 bytes, so a commit has fewer
 * charges than this. The numbers are exact in JavaScript up to 9 * 10^10 commits, which is almost three years at 1,000
 * commits per second.
 */
export const placesPerCommit = 100_000;
