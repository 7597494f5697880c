/** Finds the names by which the spend of a charge is broken down. */
import type { DatabaseSync } from "node:sqlite";
import { spendMembers, type SpendMember } from "sluice-gateway/services";
import { number } from "sluice-gateway/store";
import { readChargeText } from "../charge-text.ts";
import { at, type RecordCursor } from "../records.ts";

/** The surfaces whose charges are those of tools. Their methods are the names of the tools. */
const toolSurfaces = ["tool-rpc", "mcp"];

export class ChargeNames {
  readonly #tags: TagNumbers;
  readonly #tools: ReadonlySet<number>;

  /** `sums`: the database `spend.db`, in which new tags get a number. */
  constructor(sums: DatabaseSync, journal: DatabaseSync) {
    this.#tags = new TagNumbers(sums);
    this.#tools = new Set(
      journal
        .prepare(`SELECT id FROM names WHERE name IN (${toolSurfaces.map(() => "?").join(", ")})`)
        .all(...toolSurfaces)
        .map((row) => number(row, "id")),
    );
  }

  /** Returns the numbers of the names of a charge, in the order of `spendMembers`. 0 is the missing name. */
  of(cursor: RecordCursor): number[] {
    const field = at.charge;
    const method = cursor.uint(field.method);
    const names: Readonly<Record<SpendMember, number>> = {
      workspace: cursor.uint(field.workspace),
      key: cursor.uint(field.key),
      model: cursor.uint(field.model),
      tool: this.#tools.has(cursor.uint(field.surface)) ? method : 0,
      method,
      route: cursor.route,
      tag: this.#tags.of(cursor.text(field.text)),
    };
    return spendMembers.map((member) => names[member]);
  }
}

/** Numbers the names of agents. Clients choose these texts, so the journal does not list them as names. */
class TagNumbers {
  readonly #insert: ReturnType<DatabaseSync["prepare"]>;
  readonly #find: ReturnType<DatabaseSync["prepare"]>;
  readonly #known = new Map<string, number>();

  constructor(sums: DatabaseSync) {
    this.#insert = sums.prepare("INSERT INTO tags (name) VALUES (?) ON CONFLICT DO NOTHING");
    this.#find = sums.prepare("SELECT id FROM tags WHERE name = ?");
  }

  /** `chargeText`: see charge-text.ts. */
  of(chargeText: string): number {
    if (!chargeText.includes("\n")) return 0;
    const name = readChargeText(chargeText).agent?.name;
    if (name === undefined) return 0;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const id = this.#numberOf(name);
    this.#known.set(name, id);
    return id;
  }

  #numberOf(name: string): number {
    const found = this.#find.get(name);
    if (found !== undefined) return number(found, "id");
    return Number(this.#insert.run(name).lastInsertRowid);
  }
}
