/** The navigation of the documentation site. Plugins are listed by their folders. */
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { DefaultTheme } from "vitepress";

/** Pages by section. The text of a link is the title of its page. */
const sections: Readonly<Record<string, readonly string[]>> = {
  Start: ["docs/getting-started", "docs/how-it-works", "docs/pipeline-yaml", "docs/glossary"],
  Recipes: [
    "docs/recipes/ai-gateway",
    "docs/recipes/mcp-server",
    "docs/recipes/proxy",
    "docs/recipes/agents",
    "docs/recipes/codex",
    "docs/recipes/claude-code",
    "docs/recipes/opencode",
    "docs/recipes/sdks",
    "docs/recipes/connect",
    "docs/recipes/clients",
    "docs/recipes/papi",
  ],
  Move: ["docs/migrate/litellm", "docs/migrate/kong", "docs/migrate/nginx"],
  Use: [
    "docs/node-proxy",
    "docs/inference",
    "docs/tools",
    "docs/keys-and-limits",
    "docs/credit-and-metering",
    "docs/workspaces",
    "docs/errors",
  ],
  "Encrypted stream": ["docs/encrypted-stream", "docs/worker"],
  Operate: [
    "docs/operations",
    "docs/troubleshooting",
    "docs/dashboard",
    "docs/alerts",
    "docs/replicas",
    "bench/README",
  ],
  Deploy: [
    "docs/deploy/image",
    "docs/deploy/compose",
    "docs/deploy/kubernetes",
    "docs/deploy/sidecar",
    "docs/deploy/systemd",
    "deploy/README",
  ],
  Extend: [
    "docs/writing-plugins",
    "docs/contract-changes",
    "plugins/README",
    "plugins/contracts/README",
  ],
  Project: ["docs/versioning", "CHANGELOG", "SECURITY"],
};

/** `root`: the folder with the Markdown files. */
export function navigation(root: string): Pick<DefaultTheme.Config, "nav" | "sidebar"> {
  const link = (page: string): DefaultTheme.SidebarItem => ({
    text: titleOf(readFileSync(join(root, `${page}.md`), "utf8")),
    link: `/${page}`,
  });
  const plugins = globSync("plugins/*/", { cwd: root })
    .toSorted()
    .map((module) => ({
      text: module.slice("plugins/".length),
      items: globSync(`${module}/{,*/}README.md`, { cwd: root })
        .toSorted((a, b) => (dirname(a) < dirname(b) ? -1 : 1))
        .map((file) => link(file.slice(0, -".md".length))),
    }));
  return {
    nav: [
      { text: "Getting started", link: "/docs/getting-started" },
      { text: "Plugins", link: "/plugins/README" },
      { text: "Changes", link: "/CHANGELOG" },
    ],
    sidebar: [
      ...Object.entries(sections).map(([text, pages]) => ({ text, items: pages.map(link) })),
      { text: "Plugins", collapsed: true, items: plugins },
    ],
  };
}

function titleOf(markdown: string): string {
  return /^# (.+)$/m.exec(markdown)?.[1]?.replaceAll("`", "") ?? "";
}
