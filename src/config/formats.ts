/**
 * String formats of pipeline.yaml and of plugin options (`format: "…"`). The published schema contains the pattern, for
 * editors that do not know the format.
 */
import { isIP } from "node:net";
import { isAddressBlock } from "../base/address-list.ts";
import { durationMs, durationPattern } from "../base/duration.ts";
import { parseRedisUrl } from "../store/redis/redis-url.ts";
import { fragmentPointer, isPointer } from "../base/json-pointer.ts";
import { isLoopback } from "./loopback.ts";

export interface Format {
  /** Completes "expected …". */
  readonly expected: string;
  readonly test: (text: string) => boolean;
  /** Matches at least everything that `test` accepts. */
  readonly pattern?: string;
  /** The value may also be a number, whose digits are then used as written. */
  readonly numeric?: true;
}

export function splitUrls(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function isUrl(text: string, schemes: readonly string[]): boolean {
  const url = URL.parse(text);
  return url !== null && url.hostname !== "" && schemes.includes(url.protocol);
}

/** Whether nobody else can read or change the traffic. The URL must consist of an origin and a path. */
function isPrivateUrl(text: string): boolean {
  const url = isUrl(text, httpSchemes) ? new URL(text) : undefined;
  if (url === undefined || url.username !== "" || url.password !== "") return false;
  // `search` and `hash` are empty for a URL that ends in "?" or "#".
  if (/[?#]/.test(text)) return false;
  return url.protocol === "https:" || isLoopback(url.hostname);
}

function isOrigin(text: string): boolean {
  const url = isUrl(text, upstreamSchemes) ? new URL(text) : undefined;
  // `href` is the whole URL. If they are equal, it has no credentials, path, query or fragment.
  return url !== undefined && url.href === `${url.protocol}//${url.host}/`;
}

function isListenHost(text: string): boolean {
  if (isIP(text) !== 0) return true;
  return /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9])?)*$/i.test(
    text,
  );
}

/** Fields that the sender of a request sets. Duplicates or other values would break the request (RFC 9110 and 9112). */
const framing = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

function isFraming(name: string): boolean {
  return framing.has(name.toLowerCase());
}

const decimal = /^\d{1,12}(\.\d{1,18})?$/;
const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const httpSchemes = ["http:", "https:"];
const upstreamSchemes = [...httpSchemes, "ws:", "wss:"];

export const formats = {
  "short-duration": {
    expected: "a duration such as 500ms, 45s, 15m, 12h or 30d",
    test: (text) => durationMs(text) !== undefined,
    pattern: durationPattern.source,
  },
  "http-url": {
    expected: "an http or https URL",
    test: (text) => isUrl(text, httpSchemes),
    pattern: "^https?://",
  },
  "https-url": {
    expected:
      "an https URL, or an http URL of this machine (loopback), without credentials, query or fragment",
    test: isPrivateUrl,
    pattern: "^https?://[^?#]+$",
  },
  "http-or-websocket-url": {
    expected: "an http, https, ws or wss URL",
    test: (text) => isUrl(text, upstreamSchemes),
    pattern: "^(https?|wss?)://",
  },
  origin: {
    expected: "an origin such as https://gpu.example.org:8443, without a path",
    test: isOrigin,
    pattern: "^(https?|wss?)://[^/]+/?$",
  },
  "upstream-urls": {
    expected: "one or more http, https, ws or wss URLs, separated by commas",
    test: (text) => {
      const urls = splitUrls(text);
      return urls.length > 0 && urls.every((url) => isUrl(url, upstreamSchemes));
    },
    pattern: "^\\s*(https?|wss?)://",
  },
  "redis-url": {
    expected: "a redis, rediss, redis+sentinel or redis+cluster URL",
    test: (text) => parseRedisUrl(text) !== undefined,
    pattern: "^redis(s|\\+sentinel|\\+cluster)?://",
  },
  "postgres-url": {
    // The driver connects to one host only.
    expected: "a postgres or postgresql URL with one host",
    test: (text) =>
      isUrl(text, ["postgres:", "postgresql:"]) &&
      URL.parse(text)?.hostname.includes(",") === false,
    pattern: "^postgres(ql)?://",
  },
  "address-block": {
    expected: "an IP address, or a CIDR block such as 10.0.0.0/8 or fd00::/8",
    test: isAddressBlock,
    pattern: "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
  },
  "listen-host": {
    expected: "an IP address or a host name",
    test: isListenHost,
  },
  "added-header": {
    expected: "the name of a header field that does not describe the body or the connection",
    test: (name) => fieldName.test(name) && !isFraming(name),
    pattern: fieldName.source,
  },
  decimal: {
    expected: "a decimal number such as 0.001",
    test: (text) => decimal.test(text),
    pattern: decimal.source,
    numeric: true,
  },
  "decimal-or-none": {
    expected: 'a decimal number such as 0.001, or "none"',
    test: (text) => text === "none" || decimal.test(text),
    pattern: "^(none|\\d{1,12}(\\.\\d{1,18})?)$",
    numeric: true,
  },
  "decimal-or-document-url": {
    expected:
      "a decimal number, or an http(s) URL that ends in a JSON Pointer such as #/data/value",
    test: (text) =>
      decimal.test(text) || (isUrl(text, httpSchemes) && fragmentPointer(text) !== undefined),
    pattern: "^(\\d{1,12}(\\.\\d{1,18})?|https?://.*#/.*)$",
    numeric: true,
  },
  "json-pointer": {
    expected: "a JSON Pointer such as /data/value",
    test: isPointer,
    pattern: "^(/([^~/]|~[01])*)*$",
  },
  "condition-path": {
    expected: 'a path that starts with "/" and may end in "*"',
    test: (text) => text.startsWith("/") && !/[*?#\s]./.test(text) && !/[?#\s]$/.test(text),
    pattern: "^/[^*?#\\s]*\\*?$",
  },
  "upstream-name": {
    expected: "the name of an upstream",
    test: () => true,
  },
  regex: {
    expected: "a regular expression",
    test: (text) => {
      try {
        return new RegExp(text, "u") instanceof RegExp;
      } catch {
        return false;
      }
    },
  },
  uri: { expected: "a URI", test: (text) => URL.canParse(text) },
  ipv4: { expected: "an IPv4 address", test: (text) => isIP(text) === 4 },
  ipv6: { expected: "an IPv6 address", test: (text) => isIP(text) === 6 },
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof formats;

export function isFormat(name: string): name is FormatName {
  return Object.hasOwn(formats, name);
}
