/** Documentation search: the tool `docs_search` over Sluice's own docs and the operator's, which can also be read. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import {
  defineTools,
  type Prompt,
  type Resource,
  type ResourceLink,
  type Tool,
} from "sluice-gateway/plugin";
import { folderProblems, type Sources } from "./folders.ts";
import { loadLibrary, makeLibrary, type LibraryPage } from "./library.ts";
import { search, type Hit, type SearchIndex } from "./search-index.ts";

export interface DocsSearchOptions extends Sources {
  /** What `sluice docs index` wrote, counted from pipeline.yaml; absent: the index is made at every start. */
  readonly index?: string;
}

interface DocsSearchInput {
  readonly query: string;
  readonly limit?: number;
}

const defaultLimit = 10;
const markdown = "text/markdown";

export default defineTools<DocsSearchOptions>({
  name: "docs-search",
  description: "Searches the documentation of Sluice and any other Markdown, ranked by BM25.",
  options: {
    type: "object",
    properties: {
      own: {
        type: "boolean",
        default: true,
        description: "Sluice's own documentation is part of the index.",
      },
      folders: {
        type: "array",
        default: [],
        description: "Further folders of Markdown.",
        items: {
          type: "object",
          properties: {
            path: { type: "string", minLength: 1, description: "The folder, from pipeline.yaml." },
            url: {
              type: "string",
              minLength: 1,
              description: "Where it is published; paths of files are added to it.",
            },
            suffix: {
              type: "string",
              default: ".md",
              description: 'What stands in place of .md in urls, such as ".html" or "".',
            },
          },
          required: ["path", "url"],
          additionalProperties: false,
        },
      },
      index: {
        type: "string",
        minLength: 1,
        description: "The file that `sluice docs index` wrote; absent: indexed at every start.",
      },
    },
    additionalProperties: false,
  },
  check({ index, folders }, host) {
    if (index === undefined) {
      return folderProblems(folders, host.folder).map(({ position, member, message }) => ({
        pointer: `/folders/${position}/${member}`,
        message,
      }));
    }
    const file = resolve(host.folder, index);
    if (statSync(file, { throwIfNoEntry: false })?.isFile() === true) return [];
    const message = `there is no file ${index}: run \`sluice docs index --out ${index}\``;
    return [{ pointer: "/index", message }];
  },
  async start({ own, folders, index }, host) {
    const sources: Sources = { own, folders };
    const library =
      index === undefined
        ? await makeLibrary(sources, host.folder)
        : await loadLibrary(resolve(host.folder, index), sources);
    const { pages } = library;
    const paragraphs = library.index.paragraphs.length;
    host.log.info({ pages: pages.length, paragraphs }, "documentation indexed");
    const resources = pages.map(resource);
    return { tools: [docsSearch(library.index)], resources, prompts: [answerFromDocs] };
  },
});

const answerFromDocs: Prompt = {
  name: "docs_answer",
  title: "Answer from the documentation",
  description: "Answers a question from the documentation, with its sources.",
  arguments: [{ name: "question", description: "What you want to know.", required: true }],
  capability: "docs:read",
  get({ question = "" }) {
    const text = [
      "Answer the question below from the documentation alone. Search it with docs_search, in its own words and in others,",
      "and read the pages that the results link to where a paragraph is not enough. Name the url of what you rely on; where",
      "the documentation does not say it, say so.",
      "",
      question,
    ].join("\n");
    return { ok: true, messages: [{ role: "user", content: { type: "text", text } }] };
  },
};

/** gateway.md, "Tools"; the shape of a hit: decisions.md section 6. */
function docsSearch(index: SearchIndex): Tool<DocsSearchInput> {
  return {
    name: "docs_search",
    description:
      "Search the embedded documentation. Returns matching paragraphs with title, url and BM25 score, best first.",
    inputSchema: {
      type: "object",
      properties: {
        query: {
          type: "string",
          minLength: 1,
          description: "Words or identifiers, such as state_getStorage.",
        },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: 25,
          default: defaultLimit,
          description: "The most paragraphs to return.",
        },
      },
      required: ["query"],
      additionalProperties: false,
    },
    price: 100,
    capability: "docs:read",
    annotations: {
      title: "Search the documentation",
      readOnlyHint: true,
      idempotentHint: true,
      openWorldHint: false,
    },
    call({ query, limit = defaultLimit }) {
      const hits = search(index, query, limit);
      return { ok: true, value: hits, links: linksTo(hits) };
    },
  };
}

/** Of several paragraphs of one section, the first alone. */
function linksTo(hits: readonly Hit[]): ResourceLink[] {
  const names = new Map(hits.map(({ url, title }) => [url, title]));
  return [...names].map(([uri, name]) => ({ uri, name, mimeType: markdown }));
}

/** A page as agents read it through /mcp. */
function resource({ url, title, markdown: text }: LibraryPage): Resource {
  return {
    uri: url,
    name: title,
    mimeType: markdown,
    bytes: Buffer.byteLength(text),
    capability: "docs:read",
    read: () => text,
  };
}
