/** Waits until a gateway can use all its backends, not only one of each kind. */

interface Readiness {
  readonly checks: Readonly<Record<string, string>>;
}

/** `gateway`: a started gateway. Resolves when every check of its `/readyz` on the admin port has succeeded. */
export async function untilAllReady(gateway: { readonly adminUrl: string }): Promise<void> {
  for (;;) {
    const response = await fetch(`${gateway.adminUrl}/readyz`);
    const { checks } = (await response.json()) as Readiness;
    if (Object.values(checks).every((state) => state === "ok")) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
