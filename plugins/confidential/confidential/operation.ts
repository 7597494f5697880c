/** The OpenAPI description of the HTTP routes of the encrypted stream (confidential-stream.md section 5). */
import { violationsSchema, type DocumentedRefusal, type Operation } from "sluice-gateway/plugin";
import { digestPattern } from "./documents.ts";
import type { ConfidentialOptions } from "./options.ts";
import { maxRid, sessionPattern } from "./receipt.ts";
import { ticketRequestSchema } from "./ticket.ts";

const text = { type: "string" };
const base64url = { type: "string", pattern: "^[A-Za-z0-9_-]*$" };

const pricing = {
  description: "Prices that the charge was computed from.",
  type: "object",
  properties: {
    network: text,
    coefficient: { description: "Price coefficient in thousandths.", type: "integer" },
    pricePerTokenNano: {
      description:
        "Price of one token in nano native tokens, as a decimal number; with classes, the highest of their prices.",
      ...text,
      examples: ["12"],
    },
    classes: {
      description: "Prices of the classes of tokens. Missing if all tokens have one price.",
      type: "object",
      properties: { prompt: text, cached: text, completion: text, reasoning: text },
      required: ["prompt", "cached", "completion", "reasoning"],
      examples: [{ prompt: "12", cached: "3", completion: "36", reasoning: "36" }],
    },
    tokenUsdRate: {
      description: "Price of the token in USD, as a decimal number. Missing if it is not known.",
      ...text,
      examples: ["0.25"],
    },
    asOf: text,
  },
  required: ["network", "coefficient", "pricePerTokenNano", "asOf"],
};

const receipt = {
  type: "object",
  properties: {
    session: base64url,
    rid: { type: "integer", minimum: 1 },
    report: { description: "The exact bytes that were signed.", ...base64url },
    sig: base64url,
    evidence_digest: { type: "string", pattern: "^sha256:" },
    pricing,
    usedCUMilli: { type: "integer", minimum: 0 },
    paidBeforeCUMilli: {
      description:
        "Part of the cost that earlier attempts with the same idempotency key have paid.",
      type: "integer",
      minimum: 1,
    },
    verified: { type: "boolean" },
    unverified_reason: { description: "First check that failed.", ...text },
  },
  required: ["session", "rid", "report", "sig", "evidence_digest", "usedCUMilli", "verified"],
};

const signedPolicy = {
  type: "object",
  properties: {
    policy: { description: "The signed document.", ...base64url },
    sig: base64url,
    key: { description: "Ed25519 public key, which clients pin.", ...base64url },
  },
  required: ["policy", "sig", "key"],
};

const ticket = {
  type: "object",
  properties: { ticket: text, expires_at: { type: "string", format: "date-time" } },
  required: ["ticket", "expires_at"],
};

/** The members depend on the hardware. */
const evidence = {
  type: "object",
  examples: [{ v: 1, tee_type: "tdx", quote: "BAACAIEAAAAAAAAA" }],
};

const notFound = (description: string): readonly DocumentedRefusal[] => [
  { code: "GATEWAY_NOT_FOUND", description },
];

export const operations: Readonly<Record<ConfidentialOptions["do"], Operation>> = {
  ticket: {
    summary: "Create a ticket for a web page",
    description:
      "A web page sends the ticket instead of an API key when it opens the encrypted stream. A ticket is valid once, for 60 seconds.",
    body: { content: { "application/json": ticketRequestSchema }, required: true },
    answers: {
      201: { description: "The ticket was created.", content: { "application/json": ticket } },
    },
    refusals: [
      {
        code: "GATEWAY_INVALID_PARAMS",
        description: "The body is not JSON, or it does not match its schema.",
        details: violationsSchema(1),
      },
      {
        code: "GATEWAY_PERMISSION_DENIED",
        description: "The caller has no API key: a plugin authenticated it by itself.",
      },
    ],
  },
  evidence: {
    summary: "Show the evidence of a session",
    path: {
      type: "object",
      properties: {
        digest: {
          description: "SHA-256 in hexadecimal, with or without `sha256:`.",
          type: "string",
          pattern: digestPattern.source,
        },
      },
    },
    answers: {
      200: {
        description: "The evidence, unchanged from the enclave.",
        content: { "application/json": evidence },
      },
    },
    refusals: notFound(
      "No session has presented this evidence, or newer evidence has displaced it.",
    ),
  },
  receipt: {
    summary: "Show the signed report of a request",
    path: {
      type: "object",
      properties: {
        session: {
          description: "Id of the session: 16 bytes in base64url.",
          type: "string",
          pattern: sessionPattern.source,
        },
        rid: {
          description: "Number of the request in its session.",
          type: "integer",
          minimum: 1,
          maximum: maxRid,
        },
      },
    },
    answers: {
      200: { description: "The receipt of the request.", content: { "application/json": receipt } },
    },
    refusals: notFound("The receipt does not exist, or it belongs to another key."),
  },
  policy: {
    summary: "Show the signed policy",
    answers: {
      200: {
        description: "The policy with its signature.",
        content: { "application/json": signedPolicy },
      },
    },
  },
};
