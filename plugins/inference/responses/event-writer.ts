export class EventWriter {
  /** True for an answer in one piece, which has no events. */
  readonly isSilent: boolean;
  #text = "";
  #sequence = 0;

  constructor(isSilent: boolean) {
    this.isSilent = isSilent;
  }

  get isEmpty(): boolean {
    return this.#sequence === 0;
  }

  /** `members`: JSON without the braces, not empty. */
  writeJson(type: string, members: string): void {
    if (this.isSilent) return;
    this.#text += `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},${members}}\n\n`;
  }

  write(type: string, members: object): void {
    if (!this.isSilent) this.writeJson(type, JSON.stringify(members).slice(1, -1));
  }

  take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }
}
