/**
 * The number of a charge in PostgreSQL that comes from a journal is the number of its commit times this factor, plus its
 * place in the commit. The ring that holds a commit has 4 MiB, and a charge takes more than 100 bytes, so a place is below
 * this factor. The numbers are exact in JavaScript up to 9 * 10^10 commits: almost three years at 1,000 commits per second.
 */
export const placesPerCommit = 100_000;
