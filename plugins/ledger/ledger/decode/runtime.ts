import type { Metadata, Pallet, StorageEntry } from "./metadata.ts";
import type { TypeDef, Variant } from "./type-registry.ts";
import { readMetadata } from "./metadata.ts";
import { Shapes, skip, type Shape } from "./shape.ts";

/** A call or an event: the shape of the bytes after its two indexes, and the start of its JSON object. */
export interface Entry {
  /** `,"pallet":"Balances","method":"transfer","args":"0x`, or the same with `event` and `data`. */
  readonly json: string;
  readonly pallet: Pallet | undefined;
  readonly variant: Variant;
  readonly shape: Shape;
}

/** Entries by the index of the pallet, then by the index of the call or event. */
type Entries = readonly (readonly (Entry | undefined)[] | undefined)[];

/** `index`: true if the number of an extrinsic follows. */
interface PhaseCase {
  /** Start of the JSON text, up to the name: `,"phase":"ApplyExtrinsic`. */
  readonly json: string;
  readonly index: boolean;
}

export interface EventShapes {
  readonly phases: readonly (PhaseCase | undefined)[];
  readonly entries: Entries;
  readonly topics: Shape;
}

/** One runtime. Its tables are created when they are first used, because most of a runtime is never used. */
export class Runtime {
  readonly metadata: Metadata;
  readonly shapes: Shapes;
  #calls: Entries | undefined;
  #preamble: Preamble | undefined;
  /** Null if this runtime has no readable events, undefined before their first use. */
  #events: EventShapes | undefined | null;

  constructor(metadata: Metadata) {
    this.metadata = metadata;
    this.shapes = new Shapes(metadata.types);
  }

  call(pallet: number, call: number): Entry | undefined {
    this.#calls ??= makeCalls(this.metadata, this.shapes);
    return this.#calls[pallet]?.[call];
  }

  get preamble(): Preamble {
    this.#preamble ??= makePreamble(this.metadata, this.shapes);
    return this.#preamble;
  }

  get events(): EventShapes | undefined {
    if (this.#events === undefined) this.#events = makeEvents(this) ?? null;
    return this.#events ?? undefined;
  }

  skip(type: number, bytes: Uint8Array, at: number): number {
    return skip(this.shapes.of(type), bytes, at, bytes.length);
  }

  storage(pallet: string, entry: string): { pallet: Pallet; entry: StorageEntry } | undefined {
    const found = this.metadata.pallets.find((each) => each.name === pallet);
    const storage = found?.storage.find((each) => each.name === entry);
    return found === undefined || storage === undefined
      ? undefined
      : { pallet: found, entry: storage };
  }
}

export function createRuntime(bytes: Buffer): Runtime | undefined {
  const metadata = readMetadata(bytes);
  return metadata === undefined ? undefined : new Runtime(metadata);
}

interface Preamble {
  readonly address: Shape | undefined;
  readonly signature: Shape | undefined;
  readonly extensions: Shape;
}

function makePreamble({ address, signature, extensions }: Metadata, shapes: Shapes): Preamble {
  return {
    address: address === undefined ? undefined : shapes.of(address),
    signature: signature === undefined ? undefined : shapes.of(signature),
    extensions: shapes.ofAll(extensions),
  };
}

function makeCalls({ pallets, types }: Metadata, shapes: Shapes): Entries {
  const entries: (Entry | undefined)[][] = [];
  for (const pallet of pallets) {
    const def = pallet.calls === undefined ? undefined : types[pallet.calls];
    if (def?.kind !== "variant") continue;
    const head = `,"pallet":${asciiJson(pallet.name)},"method":`;
    entries[pallet.index] = def.variants.map((variant) =>
      variant === undefined
        ? undefined
        : lazyEntry(`${head}${asciiJson(variant.name)},"args":"0x`, pallet, variant, shapes),
    );
  }
  return entries;
}

function lazyEntry(
  json: string,
  pallet: Pallet | undefined,
  variant: Variant,
  shapes: Shapes,
): Entry {
  let shape: Shape | undefined;
  return {
    json,
    pallet,
    variant,
    get shape() {
      shape ??= shapes.ofFields(variant.fields);
      return shape;
    },
  };
}

/**
 * System.Events is a list of records: phase, event, topics. The event is an enum of pallets, each an enum of events.
 */
function makeEvents(runtime: Runtime): EventShapes | undefined {
  const { metadata, shapes } = runtime;
  const { types } = metadata;
  const found = runtime.storage("System", "Events");
  const list = found === undefined ? undefined : types[found.entry.value];
  const record = list?.kind === "sequence" ? types[list.of] : undefined;
  if (record?.kind !== "composite") return undefined;
  const [phase, event, topics, more] = record.fields;
  if (phase === undefined || event === undefined || topics === undefined || more !== undefined) {
    return undefined;
  }
  const phases = types[phase.type];
  const outer = types[event.type];
  if (phases?.kind !== "variant" || outer?.kind !== "variant") return undefined;
  return {
    phases: phases.variants.map((variant) => phaseCase(variant, shapes)),
    entries: outer.variants.map((variant) => eventEntries(variant, types, shapes)),
    topics: shapes.of(topics.type),
  };
}

function phaseCase(variant: Variant | undefined, shapes: Shapes): PhaseCase | undefined {
  if (variant === undefined) return undefined;
  const json = `,"phase":${asciiJson(variant.name).slice(0, -1)}`;
  const [index, more] = variant.fields;
  if (index === undefined) return { json, index: false };
  const isIndex = more === undefined && shapes.width(index.type) === 4;
  return isIndex ? { json, index: true } : undefined;
}

function eventEntries(
  outer: Variant | undefined,
  types: readonly TypeDef[],
  shapes: Shapes,
): (Entry | undefined)[] | undefined {
  const [field, more] = outer?.fields ?? [];
  const def = field === undefined || more !== undefined ? undefined : types[field.type];
  if (outer === undefined || def?.kind !== "variant") return undefined;
  const head = `,"pallet":${asciiJson(outer.name)},"event":`;
  return def.variants.map((variant) =>
    variant === undefined
      ? undefined
      : lazyEntry(`${head}${asciiJson(variant.name)},"data":"0x`, undefined, variant, shapes),
  );
}

/** Returns a JSON string that contains only ASCII, so that its characters and its bytes have the same offsets. */
function asciiJson(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
