/** Forwards requests unchanged and streams the answers back. Bodies are not buffered in either direction. */
import { defineSurface, refuse, type FieldChanges, type RequestHead } from "sluice-gateway/plugin";

interface Options {
  readonly upstream: string;
  readonly stripPrefix?: string;
  readonly prefix?: string;
  readonly request?: FieldChanges;
  readonly response?: FieldChanges;
  readonly passAuthorization?: boolean;
  readonly bodyBytes?: number;
}

/** The default of decisions.md section 4: 1 MiB. */
const defaultBodyBytes = 1 << 20;

const pathSchema = { type: "string", pattern: "^/[^?#]*[^/?#]$" };
const fieldChanges = {
  type: "object",
  additionalProperties: false,
  properties: {
    set: {
      description: "Fields to send. Each replaces all fields of the same name.",
      type: "object",
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: { type: "string", pattern: "^[\\t\\x20-\\x7e\\x80-\\xff]*$" },
    },
    remove: {
      description: "Names of fields that are not sent.",
      type: "array",
      items: { type: "string", pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
    },
  },
};

export default defineSurface<Options>({
  name: "forward",
  description: "Streams requests to an upstream, and its responses to the client.",
  options: {
    type: "object",
    additionalProperties: false,
    required: ["upstream"],
    properties: {
      upstream: {
        description: "Name of an entry in `upstreams` with http or https URLs.",
        type: "string",
        format: "upstream-name",
      },
      stripPrefix: {
        description: "Prefix to remove from the path. A path without it is answered with 404.",
        ...pathSchema,
      },
      prefix: {
        description: "Prefix to add to the path, after `stripPrefix` has been removed.",
        ...pathSchema,
      },
      request: {
        description: "Changes to the header fields that are sent to the upstream.",
        ...fieldChanges,
      },
      response: {
        description: "Changes to the header fields that are sent to the client.",
        ...fieldChanges,
      },
      passAuthorization: {
        description:
          "Sends the client's Authorization, which contains its API key, to the upstream.",
        type: "boolean",
        default: false,
      },
      bodyBytes: {
        description: "Maximum size of a request body in bytes; 0 for no limit. Default: 1 MiB.",
        type: "integer",
        minimum: 0,
        default: defaultBodyBytes,
      },
    },
  },

  wants: { requestId: "answer", trace: "answer" },
  uses: ["upstreams"],
  operation: ({ bodyBytes = defaultBodyBytes }, { method }) => ({
    summary: "Forward the request to an upstream",
    ...(method !== "GET" &&
      method !== "HEAD" && { body: { content: { "*/*": {} }, required: false } }),
    refusals: [
      { code: "GATEWAY_INVALID_PARAMS", description: "The path has dot segments." },
      { code: "GATEWAY_NOT_FOUND", description: "The path does not start with the prefix." },
      { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The upstream cannot be reached." },
      ...(bodyBytes === 0
        ? []
        : [
            {
              code: "GATEWAY_INVALID_PARAMS",
              status: 413,
              description: `The body is larger than ${bodyBytes} bytes.`,
            } as const,
          ]),
    ],
  }),

  check(options, host) {
    const upstream = host.use("upstreams").get(options.upstream);
    const urls = (upstream?.urls ?? []).map(urlFault).filter((fault) => fault !== undefined);
    return [
      ...urls.map((fault) => ({ pointer: "/upstream", message: fault })),
      ...fieldFaults("/request", options.request),
      ...fieldFaults("/response", options.response),
    ];
  },

  start(options, host) {
    const { bodyBytes = defaultBodyBytes, request, response, passAuthorization } = options;
    const forwarder = host.use("upstreams").forwarder(options.upstream, {
      ...(request !== undefined && { request }),
      ...(response !== undefined && { response }),
      ...(passAuthorization !== undefined && { passAuthorization }),
      ...(bodyBytes > 0 && { bodyBytes }),
    });
    if (forwarder === undefined) throw new Error(`no upstream named "${options.upstream}"`);
    return {
      answer(x) {
        const mapped = mapTarget(x.request, options);
        if (mapped.kind === "outside") return refuse("GATEWAY_NOT_FOUND");
        if (mapped.kind === "leavesRoute") {
          return refuse("GATEWAY_INVALID_PARAMS", { message: "the path has dot segments" });
        }
        const { target } = mapped;
        x.note("upstream", options.upstream);
        return forwarder.forward(x, {
          target,
          requestId: x.peek("requestId"),
          trace: x.peek("trace"),
        });
      },
    };
  },
});

interface OptionFault {
  readonly pointer: string;
  readonly message: string;
}

/** Fields that frame a message or apply to one connection, so that each sender sets them itself. */
const senders: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

function fieldFaults(pointer: string, changes: FieldChanges | undefined): OptionFault[] {
  return Object.keys(changes?.set ?? {})
    .filter((name) => senders.has(name.toLowerCase()))
    .map((name) => ({
      pointer: `${pointer}/set/${name.replaceAll("~", "~0")}`,
      message: `${name} belongs to the connection and cannot be set`,
    }));
}

function urlFault(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null) return `"${text}" is not a url`;
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return `forward supports http and https, not ${url.protocol.slice(0, -1)}`;
  }
  if (url.username !== "" || url.password !== "") {
    return "a url to forward to must not contain credentials: set an authorization header instead";
  }
  return url.search === "" && url.hash === ""
    ? undefined
    : "a url to forward to must not contain a query or a fragment";
}

type MappedTarget =
  | { readonly kind: "target"; readonly target: string }
  /** The path does not start with the prefix to remove. */
  | { readonly kind: "outside" }
  /** The path contains `..` or the like, so an upstream might resolve it to a path outside the route. */
  | { readonly kind: "leavesRoute" };

/** Maps the request target to that of the upstream: the client's unchanged bytes, with a prefix removed or added. */
function mapTarget(request: RequestHead, { stripPrefix, prefix = "" }: Options): MappedTarget {
  const { path, target } = request;
  if (mayLeaveRoute(path)) return { kind: "leavesRoute" };
  if (stripPrefix === undefined) return { kind: "target", target: prefix + target };
  if (!isBelow(path, stripPrefix)) return { kind: "outside" };
  const rest = target.slice(stripPrefix.length);
  return { kind: "target", target: prefix + (rest.startsWith("/") ? rest : `/${rest}`) };
}

/** Returns true if the path is in the prefix: `/api` contains `/api` and `/api/x`, but not `/apix`. */
function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return path.length === prefix.length || path[prefix.length] === "/";
}

/**
 * Returns true if an upstream might find `.` or `..` in the path, in any encoding. Routes match unchanged paths, so
 * `/open/..%2Fclosed` would otherwise reach `/closed` of an upstream that decodes before it resolves. Tomcat and Jetty
 * remove a segment's parameters before they resolve it, so they treat `..;x=1` as `..`.
 */
function mayLeaveRoute(path: string): boolean {
  if (!path.includes("/.") && !path.includes("%") && !path.includes("\\")) return false;
  return path
    .replaceAll(/%2e/gi, ".")
    .split(/\/|\\|%2f|%5c/i)
    .map((segment) => segment.split(/;|%3b/i, 1)[0])
    .some((name) => name === "." || name === "..");
}
