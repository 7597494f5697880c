import { globSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Deletes the type declarations that the exports of the package do not refer to. `dist`: the built package. `modules`:
 * what package.json exports, by the name that other files use, as paths of sources. Returns the names of the packages
 * that the declarations refer to.
 */
export function pruneDeclarations(
  dist: string,
  modules: Readonly<Record<string, string>>,
): ReadonlySet<string> {
  const kept = new Set<string>();
  const packages = new Set<string>();
  const waiting = Object.values(modules).map(declarationOf);
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (kept.has(path)) continue;
    kept.add(path);
    for (const name of importsOf(readFileSync(join(dist, path), "utf8"))) {
      const own = name.startsWith(".") ? join(dirname(path), name) : modules[name];
      if (own === undefined) packages.add(name);
      else waiting.push(declarationOf(own));
    }
  }
  for (const path of globSync("{src,plugins}/**/*.d.ts", { cwd: dist })) {
    if (!kept.has(path)) rmSync(join(dist, path));
  }
  return packages;
}

function declarationOf(source: string): string {
  return join(source.replace(/\.ts$/, ".d.ts"));
}

function importsOf(text: string): string[] {
  return [...text.matchAll(/\b(?:from|import\(|import)\s*"([^"]+)"/g)].map(([, name = ""]) => name);
}
