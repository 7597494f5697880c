/**
 * The library of Sluice's own documentation in the published package. The build parses and indexes the pages, because
 * that takes longer than the rest of a start. A checkout has no such files and indexes the pages at each start.
 */
import { existsSync, readFileSync } from "node:fs";
import { packageFile } from "sluice-gateway/package-files";
import type { Library } from "./library-types.ts";
import { SearchIndex, type SavedIndex } from "./search-index.ts";

/** Files of the package. The contents are read when the documentation is first searched or read. */
const listFile = "plugins/tools/docs-search/own-pages.json";
const contentsFile = "plugins/tools/docs-search/own-contents.json";

interface List {
  readonly size: number;
  readonly pages: readonly {
    readonly url: string;
    readonly title: string;
    readonly bytes: number;
  }[];
}

interface Contents {
  readonly index: SavedIndex;
  /** Markdown of the pages, in the order of the list. */
  readonly pages: readonly string[];
}

/** Returns undefined in a checkout. */
export function openOwnLibrary(): Library | undefined {
  const file = packageFile(listFile);
  if (!existsSync(file)) return undefined;
  // `ownLibraryFiles` has written both files.
  const { size, pages } = JSON.parse(readFileSync(file, "utf8")) as List;
  let opened: { readonly index: SearchIndex; readonly pages: readonly string[] } | undefined;
  const open = (): NonNullable<typeof opened> => {
    if (opened !== undefined) return opened;
    const contents = JSON.parse(readFileSync(packageFile(contentsFile), "utf8")) as Contents;
    opened = { index: SearchIndex.fromJSON(contents.index), pages: contents.pages };
    return opened;
  };
  return {
    size,
    pages: pages.map((page, position) => ({ ...page, read: () => open().pages[position] ?? "" })),
    search: (query, limit) => open().index.search(query, limit),
  };
}

/** Returns the files for the published package: their text by path in the package. */
export function ownLibraryFiles(
  pages: readonly { readonly url: string; readonly title: string; readonly markdown: string }[],
  index: SearchIndex,
): ReadonlyMap<string, string> {
  const list: List = {
    size: index.size,
    pages: pages.map(({ url, title, markdown }) => ({
      url,
      title,
      bytes: Buffer.byteLength(markdown),
    })),
  };
  const contents: Contents = {
    index: index.toJSON(),
    pages: pages.map(({ markdown }) => markdown),
  };
  return new Map([
    [listFile, JSON.stringify(list)],
    [contentsFile, JSON.stringify(contents)],
  ]);
}
