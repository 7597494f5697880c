import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { renderCatalogue } from "./catalogue.ts";
import { root } from "./tables.ts";

/** The formatter may break lines at other places, and it aligns the cells of tables. */
const sections = (text: string): string[] =>
  text.split("###").map((each) => each.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---").trim());

test("docs/plugin-catalogue.md agrees with the manifests", async () => {
  const page = readFileSync(join(root, "docs/plugin-catalogue.md"), "utf8");
  const hint = "run `node test/docs/write-tables.ts && npx oxfmt docs`";
  assert.deepEqual(sections(page), sections(await renderCatalogue()), hint);
});
