/**
 * The tool `docs_search` over Sluice's own documentation and the operator's folders of Markdown. Every page is also a
 * resource of the agent protocol.
 */
import { defineTools } from "sluice-gateway/plugin";
import type { Prompt, Resource, ResourceLink, Tool } from "sluice-gateway/services";
import { integerSchema } from "sluice-gateway/internal/toolkit";
import { folderProblems, type Sources } from "./folders.ts";
import { openLibrary, type Library, type LibraryPage } from "./library.ts";
import type { Hit } from "./search-index.ts";

interface DocsSearchInput {
  readonly query: string;
  readonly limit?: number;
}

const defaultLimit = 10;
const markdown = "text/markdown";

export default defineTools<Sources>({
  name: "docs-search",
  description:
    "Adds docs_search, which searches the documentation of Sluice and any other Markdown files, ranked by BM25.",
  options: {
    type: "object",
    properties: {
      own: {
        type: "boolean",
        default: true,
        description: "Whether to index Sluice's own documentation.",
      },
      folders: {
        type: "array",
        default: [],
        description: "Further folders of Markdown files.",
        items: {
          type: "object",
          properties: {
            path: {
              type: "string",
              minLength: 1,
              description: "Path of the folder, relative to pipeline.yaml.",
            },
            url: {
              type: "string",
              minLength: 1,
              description: "Base URL of the published pages; the path of each file is appended.",
            },
            suffix: {
              type: "string",
              default: ".md",
              description: 'Replaces .md in URLs, for example ".html" or "".',
            },
          },
          required: ["path", "url"],
          additionalProperties: false,
        },
      },
    },
    additionalProperties: false,
  },
  check({ folders }, host) {
    return folderProblems(folders, host.folder).map(({ position, member, message }) => ({
      pointer: `/folders/${position}/${member}`,
      message,
    }));
  },
  async start(sources, host) {
    const { pages, search } = await openLibrary(sources, host.folder);
    host.log.info({ pages: pages.length }, "documentation opened");
    const resources = pages.map(resource);
    return { tools: [docsSearch(search)], resources, prompts: [answerFromDocs] };
  },
});

const answerFromDocs: Prompt = {
  name: "docs_answer",
  title: "Answer from the documentation",
  description: "Answers a question from the documentation, with its sources.",
  arguments: [{ name: "question", description: "Your question.", required: true }],
  capability: "docs:read",
  get({ question = "" }) {
    const text = [
      "Answer the question below from the documentation only. Search with docs_search, in the words of the question and in",
      "others, and read the linked pages if a paragraph is not enough. Name the url of each source. If the documentation",
      "does not contain the answer, say so.",
      "",
      question,
    ].join("\n");
    return { ok: true, messages: [{ role: "user", content: { type: "text", text } }] };
  },
};

/** gateway.md, "Tools"; the shape of a hit: decisions.md section 6. */
function docsSearch(search: Library["search"]): Tool<DocsSearchInput> {
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
        limit: integerSchema(defaultLimit, [1, 25], "Maximum number of paragraphs to return."),
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
    async call({ query, limit = defaultLimit }) {
      const hits = await search(query, limit);
      return { ok: true, value: hits, links: linksTo(hits) };
    },
  };
}

/** One link per section, even if several of its paragraphs were found. */
function linksTo(hits: readonly Hit[]): ResourceLink[] {
  const names = new Map(hits.map(({ url, title }) => [url, title]));
  return [...names].map(([uri, name]) => ({ uri, name, mimeType: markdown }));
}

function resource({ url, title, bytes, read }: LibraryPage): Resource {
  return {
    uri: url,
    name: title,
    mimeType: markdown,
    bytes,
    capability: "docs:read",
    read,
  };
}
