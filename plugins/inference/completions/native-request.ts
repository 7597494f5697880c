/**
 * Requests in an API that the workers of a network speak. They are read, checked and measured like those that are
 * translated, but the worker gets the client's own body, without what is named as ignored.
 */
import type { Offer, Passable, WorkerApi } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Json } from "./check.ts";
import { unpooledBytes, type CompletionRequest } from "./request.ts";

export interface NativeApi {
  readonly name: WorkerApi;
  readonly members: ReadonlySet<string>;
  /** Returns true for a member that is only ignored by the translation. `name`: as in the header. */
  readonly isKept: (name: string, passes: readonly Passable[]) => boolean;
  /** Removes tools, reasoning or texts that the worker must not get. */
  readonly adapt: (members: Json, passes: readonly Passable[]) => Json;
}

/** Returns `translated`, or a request with the client's body if the workers speak the API. */
export function requestFor(
  offer: Offer | undefined,
  native: NativeApi | undefined,
  body: Json,
  translated: CompletionRequest,
): CompletionRequest {
  if (native === undefined || offer?.speaks.includes(native.name) !== true) return translated;
  const { model, stream, imageTokens, passes } = translated;
  const ignored = translated.ignored.filter((name) => !native.isKept(name, passes));
  const passed = withoutIgnored(body, native.members, ignored);
  const members = native.adapt({ ...passed, model, stream }, passes);
  const text = JSON.stringify(members);
  const { contextTokens = Infinity } = offer.prompt;
  // The worker also gets members that were not measured, so each byte counts as one token.
  const maxTokens = textBytes(text, members, imageTokens / offer.prompt.imageTokens) + imageTokens;
  return {
    ...translated,
    api: native.name,
    body: unpooledBytes(text),
    ignored,
    maxPromptTokens: Math.min(Math.max(maxTokens, translated.maxPromptTokens), contextTokens),
  };
}

/** A name such as `reasoning.effort` is that of a member inside an object. */
function withoutIgnored(
  body: Json,
  known: ReadonlySet<string>,
  ignored: readonly string[],
): Record<string, unknown> {
  const members = Object.entries(body).filter(([name]) => known.has(name));
  return Object.fromEntries(
    members.flatMap(([name, value]) => {
      if (ignored.includes(name)) return [];
      if (!isObject(value)) return [[name, value]];
      const inner = Object.entries(value).filter(([each]) => !ignored.includes(`${name}.${each}`));
      return [[name, Object.fromEntries(inner)]];
    }),
  );
}

const imageTypes: readonly unknown[] = ["image", "input_image"];

/** Returns the size of the JSON without its images. If more than `images` look like one, all bytes count. */
function textBytes(text: string, members: Json, images: number): number {
  if (images === 0) return Buffer.byteLength(text);
  let found = 0;
  const rest = JSON.stringify(members, (_, value: unknown) => {
    const isImage = isObject(value) && imageTypes.includes(value["type"]);
    if (isImage) found++;
    return isImage ? null : value;
  });
  return Buffer.byteLength(found <= images ? rest : text);
}
