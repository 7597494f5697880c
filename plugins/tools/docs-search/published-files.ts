/** Indexes Sluice's own documentation when the published package is built (.ci/build.ts). */
import { indexPages } from "./library.ts";
import { ownLibraryFiles } from "./own-library.ts";

/** `root`: the checkout. Returns the text of each file by its path in the package. */
export default async function publishedFiles(root: string): Promise<ReadonlyMap<string, string>> {
  const { pages, index } = await indexPages({ own: true, folders: [] }, root);
  return ownLibraryFiles(pages, index);
}
