/**
 * The version of the plugin contract. The first number changes when a plugin that follows the contract may stop
 * working; the second one when plugins can use something new. docs/contract-changes.md lists the changes.
 */
export const contractVersion = "1.3";

/** A hook or a member of a hooks object that a later version of the contract removes. */
export interface Deprecation {
  readonly kind: "step" | "surface" | "tools" | "service";
  readonly hook: string;
  /** The first version without the hook. */
  readonly removedIn: string;
  /** The remedy, as an imperative sentence. */
  readonly instead: string;
}

/** Everything that is deprecated. docs/contract-changes.md lists it, too. Only tests change it. */
export const deprecations: Deprecation[] = [];

/** Returns a sentence for each deprecated hook that a started plugin has. */
export function deprecatedHooks(
  kind: Deprecation["kind"],
  hooks: object,
  list: readonly Deprecation[] = deprecations,
): string[] {
  return list
    .filter((entry) => entry.kind === kind && Reflect.get(hooks, entry.hook) !== undefined)
    .map(
      ({ hook, removedIn, instead }) =>
        `the hook ${hook} will be removed in version ${removedIn} of the plugin contract. ${instead}`,
    );
}

/** A version range such as `^1` or `^1.2`: this first number, and at least this second one. */
const rangePattern = /^\^([1-9]\d{0,3})(?:\.(\d{1,4}))?$/;

/** Returns whether the value is a range, or several with `||` between them. */
export function isContractRange(value: unknown): value is string {
  return typeof value === "string" && rangesOf(value).every((range) => range !== null);
}

function rangesOf(text: string): readonly (RegExpExecArray | null)[] {
  return text.split(" || ").map((range) => rangePattern.exec(range));
}

/** Returns whether plugins for `range` work with `version` of the contract. Throws an Error if it is not a range. */
export function supportsContract(range: string, version: string = contractVersion): boolean {
  const [ourMajor, ourMinor] = version.split(".");
  const fits = rangesOf(range).map((wanted) => {
    if (wanted === null) throw new Error(`not a range of contract versions: ${range}`);
    const [, major, minor = "0"] = wanted;
    return major === ourMajor && Number(minor) <= Number(ourMinor);
  });
  return fits.includes(true);
}
