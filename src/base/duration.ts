export const durationPattern = /^(\d{1,9})(ms|s|m|h|d)$/;
const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Converts `500ms`, `45s`, `15m`, `12h` or `30d` to milliseconds. Returns undefined for other text. */
export function durationMs(text: string): number | undefined {
  const match = durationPattern.exec(text);
  const unit = unitMs[match?.[2] ?? ""];
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit;
}
