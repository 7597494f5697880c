export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Clients send null for members that they do not set. */
export function isAbsent(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

export function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
