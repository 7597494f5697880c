/** Conditions of a search. Those that are not wanted are left out, so that the store can use its indexes. */

export class Search {
  readonly #conditions: string[] = [];
  readonly #values: unknown[] = [];

  get values(): readonly unknown[] {
    return this.#values;
  }

  /** The clause WHERE, empty if there are no conditions. */
  get where(): string {
    return this.#conditions.length === 0 ? "" : `WHERE ${this.#conditions.join(" AND ")}`;
  }

  /** Returns the parameter of a value. */
  mark(value: unknown): string {
    return `$${this.#values.push(value)}`;
  }

  /** Adds a condition on a value, if there is one. `condition`: gets the parameter of the value. */
  add(value: string | number | undefined, condition: (mark: string) => string): this {
    if (value !== undefined) this.#conditions.push(condition(this.mark(value)));
    return this;
  }

  /** Adds the condition that one of the columns contains a text, in any case. */
  addText(wanted: string, ...columns: readonly string[]): this {
    if (wanted === "") return this;
    const pattern = `%${wanted.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
    const all = `lower(concat_ws('\n', ${columns.join(", ")}))`;
    return this.add(pattern, (mark) => `${all} LIKE lower(${mark}) ESCAPE '\\'`);
  }
}
