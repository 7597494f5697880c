/** Translates the source of an image to a part of a chat message. */
import { invalid, objectAt, shownWord, stringAt } from "./reading.ts";

export interface ImagePart {
  readonly type: "image_url";
  readonly image_url: { readonly url: string };
}

const mediaTypes: ReadonlySet<unknown> = new Set([
  "image/jpeg",
  "image/png",
  "image/gif",
  "image/webp",
]);

export function readImage(value: unknown, path: string): ImagePart {
  const source = objectAt(value, path);
  const { type, media_type: mediaType } = source;
  if (type === "url") return part(stringAt(source["url"], `${path}.url`));
  if (type !== "base64")
    throw invalid(`${path}.type`, `${shownWord(type)} is not supported, expected base64 or url`);
  if (!mediaTypes.has(mediaType)) {
    throw invalid(`${path}.media_type`, "expected image/jpeg, image/png, image/gif or image/webp");
  }
  return part(`data:${String(mediaType)};base64,${stringAt(source["data"], `${path}.data`)}`);
}

function part(url: string): ImagePart {
  return { type: "image_url", image_url: { url } };
}
