/**
 * The version of the plugin contract. The first number changes when a plugin that follows the contract may stop
 * working; the second one when plugins can use something new. docs/contract-changes.md lists the changes.
 */
export const contractVersion = "1.2";

/** A version range such as `^1` or `^1.2`: this first number, and at least this second one. */
const rangePattern = /^\^([1-9]\d{0,3})(?:\.(\d{1,4}))?$/;

export function isContractRange(value: unknown): value is string {
  return typeof value === "string" && rangePattern.test(value);
}

/** Returns whether plugins for `range` work with `version` of the contract. Throws an Error if it is not a range. */
export function supportsContract(range: string, version: string = contractVersion): boolean {
  const wanted = rangePattern.exec(range);
  if (wanted === null) throw new Error(`not a range of contract versions: ${range}`);
  const [, major, minor = "0"] = wanted;
  const [ourMajor, ourMinor] = version.split(".");
  return major === ourMajor && Number(minor) <= Number(ourMinor);
}
