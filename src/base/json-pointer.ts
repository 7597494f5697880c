/** JSON Pointers (RFC 6901). */

export function pointerKey(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

export function pointerKeys(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Undefined if the fragment has no JSON Pointer (section 6). */
export function fragmentPointer(url: string): string | undefined {
  const hash = url.indexOf("#/");
  if (hash === -1) return undefined;
  try {
    const pointer = decodeURIComponent(url.slice(hash + 1));
    return isPointer(pointer) ? pointer : undefined;
  } catch {
    return undefined;
  }
}

export function isPointer(text: string): boolean {
  return /^(\/([^~/]|~[01])*)*$/.test(text);
}
