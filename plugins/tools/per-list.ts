import type { CatalogueEntry, Tools } from "sluice-gateway/services";

/** Computes the value again after the list has changed. */
export function perList<T>(tools: Tools, compute: (list: readonly CatalogueEntry[]) => T): () => T {
  let known = tools.list;
  let value = compute(known);
  return () => {
    const { list } = tools;
    if (list !== known) {
      value = compute(list);
      known = list;
    }
    return value;
  };
}
