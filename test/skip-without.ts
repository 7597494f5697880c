/**
 * Returns the option `skip` of a test that needs something of the system, such as a program: a text if it is missing.
 * With CI=true the test runs in any case, and fails if it is missing (`.ci/run` installs it).
 */
export function skipWithout(name: string, isInstalled: boolean): string | false {
  return isInstalled || process.env["CI"] === "true" ? false : `needs ${name}`;
}
