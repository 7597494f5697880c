/** JSON with the members of every object in code-unit order: one text for equal values (the order of RFC 8785). */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => {
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    const entries = Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1));
    // A null prototype, so that a member named __proto__ stays a member.
    return Object.assign(Object.create(null) as object, Object.fromEntries(entries));
  });
}
