/** Waits until a gateway can use all its backends, not only one of each kind. */

interface Readiness {
  readonly checks: Readonly<Record<string, string>>;
}

/**
 * `gateway`: a started gateway. Resolves when every check of its `/readyz` on the admin port has succeeded, and rejects
 * if that takes longer than a minute.
 */
export async function untilAllReady(gateway: { readonly adminUrl: string }): Promise<void> {
  const end = performance.now() + 60_000;
  for (;;) {
    const response = await fetch(`${gateway.adminUrl}/readyz`);
    const { checks } = (await response.json()) as Readiness;
    if (Object.values(checks).every((state) => state === "ok")) return;
    if (performance.now() > end) throw new Error(`not ready: ${JSON.stringify(checks)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
