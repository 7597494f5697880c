/**
 * The documentation site, which `npm run docs` builds. Its pages are the Markdown files of the repository at the same
 * paths, so their links work in a checkout, too. README.md is the front page.
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { slug } from "github-slugger";
import { defineConfig, type MarkdownOptions } from "vitepress";
import { navigation } from "./navigation.ts";

const root = join(import.meta.dirname, "../..");

// For a site below a path: DOCS_BASE=/sluice/
const base = process.env["DOCS_BASE"] ?? "/";
const icon = "plugins/dashboard/dashboard/page/icon.svg";

const forContributors = /(^|\/)(AGENTS|CONTRIBUTING|notes)\.md$/;

/** Files that the site needs and that are not pages, such as deploy/Dockerfile, relative to `root`. */
const linkedFiles = new Set([icon]);

/**
 * Lets browsers load linked files themselves: the site's router ignores links with a target. The pages for contributors
 * and laboratory notes are such files, because they do not help users who search the site.
 */
const findLinkedFiles: MarkdownOptions["config"] = (markdown) => {
  markdown.core.ruler.push("linked-files", ({ tokens, env }: { tokens: Token[]; env: PageEnv }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === "link_open" ? (token.attrGet("href") ?? "") : "";
      const isPage = /\.md(#.*)?$/.test(href) && !forContributors.test(href);
      if (isPage || /^$|^\w+:|^#/.test(href)) continue;
      linkedFiles.add(relative(root, resolve(dirname(env.path), href)));
      token.attrSet("target", "_self");
    }
  });
};

/** The members of markdown-it's tokens that are used here. */
interface Token {
  readonly type: string;
  readonly children: Token[] | null;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
}

interface PageEnv {
  /** Absolute path of the page's file. */
  readonly path: string;
}

export default defineConfig({
  title: "Sluice",
  description: "A gateway in front of a Substrate node and a confidential inference network.",
  srcDir: root,
  srcExclude: [
    "{data,dist,src,test}/**",
    "**/{node_modules/**,notes.md}",
    "AGENTS.md",
    "CONTRIBUTING.md",
  ],
  rewrites: { "README.md": "index.md" },
  base,
  head: [["link", { rel: "icon", href: base + icon }]],
  themeConfig: {
    ...navigation(root),
    outline: [2, 3],
    search: { provider: "local" },
  },
  markdown: {
    anchor: { slugify: slug },
    config: findLinkedFiles,
    // The default themes have colours whose contrast is below 4.5 to 1.
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  },
  buildEnd({ outDir }) {
    for (const file of linkedFiles) {
      mkdirSync(dirname(join(outDir, file)), { recursive: true });
      copyFileSync(join(root, file), join(outDir, file));
    }
  },
});
