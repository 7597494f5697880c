/** Identifies running plugin instances, to find out whether a reload has replaced one. */

const ids = new WeakMap<object, string>();
let lastId = 0;

/** Returns a text that is unique to this instance and stays the same while it lives. */
export function instanceId(instance: object): string {
  const known = ids.get(instance);
  if (known !== undefined) return known;
  const id = String(++lastId);
  ids.set(instance, id);
  return id;
}
