/** What the plugin needs of a library, whether it was indexed now or by the build. */
import type { Hit } from "./search-index.ts";

export interface Library {
  readonly pages: readonly LibraryPage[];
  /** Number of paragraphs. */
  readonly size: number;
  /** Returns the best `limit` paragraphs, best first. */
  readonly search: (query: string, limit: number) => Hit[];
}

export interface LibraryPage {
  readonly url: string;
  readonly title: string;
  /** Size of the Markdown in UTF-8. */
  readonly bytes: number;
  /** Returns the Markdown. */
  readonly read: () => string;
}
