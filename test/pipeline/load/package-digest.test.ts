/** What the digest of an installed package covers. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { packageDigest } from "../../../src/pipeline/load/package-digest.ts";
import { temporaryFolder } from "../../store/folder.ts";

const files = {
  "package.json": '{ "name": "acme", "version": "1.0.0" }',
  "index.js": 'import "./lib/one.js"; import "bundled"; import "./lib/node_modules/hidden.js";',
  "lib/one.js": "1",
  "lib/node_modules/hidden.js": "2",
  "node_modules/bundled/index.js": "3",
  "node_modules/bundled/node_modules/deep/index.js": "4",
};

interface WrittenPackage {
  readonly folder: string;
  readonly write: (path: string, text: string) => void;
}

function writePackage(t: TestContext): WrittenPackage {
  const folder = join(temporaryFolder(t), "node_modules/acme");
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const [path, text] of Object.entries(files)) write(path, text);
  return { folder, write };
}

describe("the digest of a package", () => {
  it("is the same for the same files in another folder, in whatever order they were written", (t) => {
    const { folder } = writePackage(t);
    const other = writePackage(t);
    const digest = packageDigest(folder);
    assert.match(digest, /^sha512-[\w+/]{86}==$/);
    assert.equal(packageDigest(other.folder), digest);
    rmSync(join(other.folder, "index.js"));
    other.write("index.js", files["index.js"]);
    assert.equal(packageDigest(other.folder), digest);
  });

  for (const path of Object.keys(files)) {
    it(`changes with ${path}`, (t) => {
      const { folder, write } = writePackage(t);
      const before = packageDigest(folder);
      write(path, "changed");
      const changed = packageDigest(folder);
      assert.notEqual(changed, before);
      renameSync(join(folder, path), join(folder, `${path}.old`));
      assert.notEqual(packageDigest(folder), changed);
      rmSync(join(folder, `${path}.old`));
      assert.notEqual(packageDigest(folder), before);
    });
  }

  it("changes with a file that is added to a folder node_modules", (t) => {
    const { folder, write } = writePackage(t);
    const before = packageDigest(folder);
    write("node_modules/.bin/more.js", "");
    assert.notEqual(packageDigest(folder), before);
  });

  it("contains the targets of links inside the package, and ends if links form a circle", (t) => {
    const { folder } = writePackage(t);
    const bin = join(folder, "node_modules/.bin");
    mkdirSync(bin);
    const before = packageDigest(folder);
    symlinkSync("../bundled/index.js", join(bin, "tool"));
    const linked = packageDigest(folder);
    assert.notEqual(linked, before);
    unlinkSync(join(bin, "tool"));
    symlinkSync("../bundled/node_modules/deep/index.js", join(bin, "tool"));
    assert.notEqual(packageDigest(folder), linked);
    symlinkSync("../..", join(bin, "circle"));
    symlinkSync(".", join(folder, "self"));
    assert.match(packageDigest(folder), /^sha512-/);
  });

  it("is that of the package behind a link, as some package managers install it", (t) => {
    const { folder } = writePackage(t);
    const link = join(dirname(folder), "linked");
    symlinkSync("acme", link);
    assert.equal(packageDigest(link), packageDigest(folder));
  });

  it("is refused with a link out of the package, which could lead to anything", (t) => {
    const { folder } = writePackage(t);
    const outside = join(dirname(folder), "acme-other");
    mkdirSync(outside);
    for (const target of ["../../acme-other", outside, "/", "../.."]) {
      symlinkSync(target, join(folder, "lib/out"));
      assert.throws(() => packageDigest(folder), /^Error: lib\/out is a link that leads out of/);
      unlinkSync(join(folder, "lib/out"));
    }
    symlinkSync("missing.js", join(folder, "lib/out"));
    assert.throws(() => packageDigest(folder), /^Error: lib\/out is a link to nothing/);
    unlinkSync(join(folder, "lib/out"));
    symlinkSync("out", join(folder, "lib/out"));
    assert.throws(() => packageDigest(folder), /^Error: lib\/out is a link to nothing/);
  });

  it("is refused with a socket, which cannot be read", async (t) => {
    const { folder } = writePackage(t);
    const server = createServer().listen(join(folder, "socket"));
    await once(server, "listening");
    try {
      assert.throws(
        () => packageDigest(folder),
        /^Error: socket is not a file, a folder or a link/,
      );
    } finally {
      server.close();
    }
  });
});
