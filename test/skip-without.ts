/** The option `skip` of a test that needs something of the system. With CI=true, the test runs and fails instead. */
export function skipWithout(name: string, isInstalled: boolean): string | false {
  return isInstalled || process.env["CI"] === "true" ? false : `needs ${name}`;
}
