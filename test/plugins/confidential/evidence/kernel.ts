/** Simulates the kernel's side of configfs: folders that fill themselves, and a driver that creates reports. */
import { basename, dirname } from "node:path";
import type { TsmFiles } from "../../../../plugins/confidential/evidence/configfs-tsm.ts";

export interface FakeKernel extends TsmFiles {
  readonly items: ReadonlySet<string>;
  /** The maximum number of folders that existed at the same time. */
  readonly maxAtOnce: number;
  /** The writes, such as `inblob 64` or `privlevel 2`. */
  readonly writes: readonly string[];
}

export interface FakeDriver {
  readonly provider: string;
  /** Returns `outblob` for the bytes in `inblob`. May throw like the kernel. */
  report(inblob: Buffer): Uint8Array;
  readonly auxblob?: Uint8Array;
  readonly privilegeFloor?: number;
  /** True if another process writes to the same folder. */
  readonly isDisturbed?: boolean;
  /** Error code with which creating a folder fails. */
  readonly refuses?: string;
}

interface Item {
  generation: number;
  inblob: Buffer | undefined;
}

export function kernelError(code: string): Error {
  return Object.assign(new Error(`${code}: /sys/kernel/secret/path`), { code });
}

export function fakeKernel(driver: FakeDriver): FakeKernel {
  const items = new Map<string, Item>();
  const writes: string[] = [];
  let most = 0;
  const itemOf = (path: string): Item => {
    const item = items.get(dirname(path));
    if (item === undefined) throw kernelError("ENOENT");
    return item;
  };
  return {
    get items() {
      return new Set(items.keys());
    },
    get maxAtOnce() {
      return most;
    },
    writes,
    async mkdir(path) {
      await Promise.resolve();
      if (driver.refuses !== undefined) throw kernelError(driver.refuses);
      if (items.has(path)) throw kernelError("EEXIST");
      items.set(path, { generation: 0, inblob: undefined });
      most = Math.max(most, items.size);
    },
    async rmdir(path) {
      await Promise.resolve();
      if (!items.delete(path)) throw kernelError("ENOENT");
    },
    async write(path, bytes) {
      await Promise.resolve();
      const item = itemOf(path);
      const name = basename(path);
      item.generation += driver.isDisturbed === true ? 2 : 1;
      if (name === "inblob") {
        if (bytes.length === 0 || bytes.length > 64) throw kernelError("EINVAL");
        item.inblob = Buffer.from(bytes);
        writes.push(`inblob ${bytes.length}`);
      } else if (name === "privlevel") writes.push(`privlevel ${Buffer.from(bytes).toString()}`);
      else throw kernelError("EACCES");
    },
    async read(path) {
      await Promise.resolve();
      const item = itemOf(path);
      switch (basename(path)) {
        case "provider":
          return Buffer.from(`${driver.provider}\n`);
        case "generation":
          return Buffer.from(`${item.generation}\n`);
        case "privlevel_floor":
          return Buffer.from(`${driver.privilegeFloor ?? 0}\n`);
        case "outblob":
          if (item.inblob === undefined) throw kernelError("EINVAL");
          return Buffer.from(driver.report(item.inblob));
        case "auxblob":
          return Buffer.from(driver.auxblob ?? []);
        default:
          throw kernelError("ENOENT");
      }
    },
  };
}
