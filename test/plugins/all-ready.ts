interface Readiness {
  readonly checks: Readonly<Record<string, string>>;
}

/** Resolves when every check of `/readyz` on the admin port has succeeded. Rejects after a minute. */
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
