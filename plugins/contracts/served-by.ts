export interface CompletionFact {
  /** Listed name of the model. */
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Milliseconds from the request to the first piece of a streamed answer. Undefined for whole answers. */
  readonly firstTokenMs: number | undefined;
}

declare module "sluice-gateway/plugin" {
  interface Facts {
    completion: CompletionFact;
  }
}
