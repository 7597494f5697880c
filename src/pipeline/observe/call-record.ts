/** The sum of the calls of one exchange. It needs bounded memory however many calls a connection carries. */
import type { CallReport, ReportedCalls } from "../../contract/called.ts";
import { redact } from "../../base/redact.ts";

const maxNames = 8;
/** The form of the names of what can be called. Any other text that a client sends as a name is not shown. */
const nameShape = /^[A-Za-z][A-Za-z0-9_./:-]{0,63}$/;

/** Stands for a name that the deployment does not list and that does not look like one. */
export const otherName = "other";

export class CallRecord implements ReportedCalls {
  items = 0;
  failed = 0;
  code: string | undefined = undefined;
  /** Most exchanges carry one call, which needs no list. */
  #first = "";
  #more: string[] | undefined = undefined;

  add({ name, isListed, code }: CallReport): void {
    this.items++;
    if (code !== undefined) {
      this.failed++;
      this.code = code;
    }
    const shown = isListed ? name : shownName(name);
    if (this.items === 1) this.#first = shown;
    else if (shown !== this.#first) this.#addName(shown);
  }

  get names(): readonly string[] {
    if (this.items === 0) return [];
    return this.#more === undefined ? [this.#first] : [this.#first, ...this.#more];
  }

  copy(other: CallRecord | undefined): void {
    this.items = other?.items ?? 0;
    this.failed = other?.failed ?? 0;
    this.code = other?.code;
    this.#first = other === undefined ? "" : other.#first;
    this.#more = other === undefined ? undefined : other.#more;
  }

  #addName(name: string): void {
    this.#more ??= [];
    if (this.#more.length < maxNames - 1 && !this.#more.includes(name)) this.#more.push(name);
  }
}

/**
 * Names of unknown methods are shown, because operators want to know which ones their clients miss. A secret that a
 * client sent as a name must not be logged.
 */
function shownName(name: string): string {
  return nameShape.test(name) ? redact(name) : otherName;
}
