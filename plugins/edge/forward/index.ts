/**
 * Surface `forward`: sends the request on to an upstream as it came and streams the answer back as it comes. Bodies are
 * held in neither direction.
 */
import { defineSurface, refuse, type FieldChanges, type TraceSpan } from "sluice-gateway/plugin";
import { fieldFaults, urlFault } from "./faults.ts";
import { mapTarget } from "./target.ts";

declare module "sluice-gateway/plugin" {
  interface Slots {
    requestId: string;
    trace: TraceSpan;
  }
}

interface Options {
  readonly upstream: string;
  readonly stripPrefix?: string;
  readonly prefix?: string;
  readonly request?: FieldChanges;
  readonly response?: FieldChanges;
  readonly passAuthorization?: boolean;
  readonly bodyBytes?: number;
}

/** decisions.md section 4: 1 MiB unless said otherwise. */
const defaultBodyBytes = 1 << 20;

const path = { type: "string", pattern: "^/[^?#]*[^/?#]$" };
const fieldChanges = {
  type: "object",
  additionalProperties: false,
  properties: {
    set: {
      description: "Sent instead of any field of the same name.",
      type: "object",
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: { type: "string", pattern: "^[\\t\\x20-\\x7e\\x80-\\xff]*$" },
    },
    remove: {
      description: "Not sent.",
      type: "array",
      items: { type: "string", pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
    },
  },
};

export default defineSurface<Options>({
  name: "forward",
  description: "Streams requests to an upstream and its answers back.",
  options: {
    type: "object",
    additionalProperties: false,
    required: ["upstream"],
    properties: {
      upstream: {
        description: "A name from `upstreams`, with http or https urls.",
        type: "string",
        format: "upstream-name",
      },
      stripPrefix: { description: "Taken off the path; other paths are 404.", ...path },
      prefix: { description: "Put before the path, after `stripPrefix`.", ...path },
      request: { description: "Header fields towards the upstream.", ...fieldChanges },
      response: { description: "Header fields towards the client.", ...fieldChanges },
      passAuthorization: {
        description: "Sends the client's Authorization, which holds its API key, to the upstream.",
        type: "boolean",
        default: false,
      },
      bodyBytes: {
        description: "The largest request body, bytes; 0: any. Default 1 MiB.",
        type: "integer",
        minimum: 0,
        default: defaultBodyBytes,
      },
    },
  },

  wants: { requestId: "answer", trace: "answer" },
  operation: ({ bodyBytes = defaultBodyBytes }, { method }) => ({
    summary: "Forward the request to an upstream",
    ...(method !== "GET" &&
      method !== "HEAD" && { body: { content: { "*/*": {} }, required: false } }),
    refusals: [
      { code: "GATEWAY_INVALID_PARAMS", description: "The path has dot segments." },
      { code: "GATEWAY_NOT_FOUND", description: "The path is not below the prefix." },
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
    const upstream = host.upstream(options.upstream);
    const urls = (upstream?.urls ?? []).map(urlFault).filter((fault) => fault !== undefined);
    return [
      ...urls.map((fault) => ({ pointer: "/upstream", message: fault })),
      ...fieldFaults("/request", options.request),
      ...fieldFaults("/response", options.response),
    ];
  },

  start(options, host) {
    const { bodyBytes = defaultBodyBytes, request, response, passAuthorization } = options;
    const forwarder = host.forwarder(options.upstream, {
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
        if (mapped.kind === "climbs") {
          return refuse("GATEWAY_INVALID_PARAMS", { message: "the path has dot segments" });
        }
        const { target } = mapped;
        return forwarder.forward(x, {
          target,
          requestId: x.peek("requestId"),
          trace: x.peek("trace"),
        });
      },
    };
  },
});
