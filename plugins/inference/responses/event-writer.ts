/** Writes the server-sent events of one response, and numbers them. */
export class EventWriter {
  /** True for an answer in one piece, which has no events. */
  readonly isSilent: boolean;
  #text = "";
  #sequence = 0;

  constructor(isSilent: boolean) {
    this.isSilent = isSilent;
  }

  /** True before the first event. */
  get isEmpty(): boolean {
    return this.#sequence === 0;
  }

  /** `members`: JSON of the members without the braces. Not empty. */
  writeJson(type: string, members: string): void {
    if (this.isSilent) return;
    this.#text += `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},${members}}\n\n`;
  }

  /** `members`: at least one. */
  write(type: string, members: object): void {
    if (!this.isSilent) this.writeJson(type, JSON.stringify(members).slice(1, -1));
  }

  /** Returns the events that were written since the last call. */
  take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }
}
