/**
 * Returns a value as JSON that PostgreSQL can store. U+0000 and half surrogate pairs, which it refuses, become U+FFFD,
 * because one such charge would block all later ones.
 */
export function storableJson(value: object): string {
  const text = JSON.stringify(value);
  return text.includes("\\u") ? JSON.stringify(value, storable) : text;
}

function storable(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.replaceAll("\0", "\ufffd").toWellFormed() : value;
}
