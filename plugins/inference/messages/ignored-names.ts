/** The parts of a request that are accepted and dropped, for the header that names them. */

/** Names that a request can have without a model seeing them. */
export const knownNames = [
  "betas",
  "cache_control",
  "citations",
  "context_management",
  "metadata",
  "messages.content.redacted_thinking",
  "messages.content.thinking",
  "output_config.effort",
  "service_tier",
  "stop_sequences",
  "system.billing_header",
  "temperature",
  "thinking.budget_tokens",
  "tool_choice",
  "tools.eager_input_streaming",
  "top_k",
  "top_p",
] as const;

/** Other names come from clients, so their number and form are limited. */
const maxUnknown = 16;
const nameForm = /^[a-z0-9_.]{1,40}$/;

export class IgnoredNames {
  readonly #names = new Set<string>();
  #unknown = 0;

  add(name: (typeof knownNames)[number]): void {
    this.#names.add(name);
  }

  /** Adds the name of a member as the client has written it, or `other`. */
  addUnknown(name: string): void {
    if (this.#names.has(name)) return;
    const isShown = nameForm.test(name) && this.#unknown++ < maxUnknown;
    this.#names.add(isShown ? name : "other");
  }

  list(): readonly string[] {
    return [...this.#names];
  }
}
