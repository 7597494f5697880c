/** What the routes beside the encrypted stream take and answer (confidential-stream.md section 5). */
import { violationsSchema, type DocumentedRefusal, type Operation } from "sluice-gateway/plugin";
import { digestForm } from "./documents.ts";
import type { ConfidentialOptions } from "./options.ts";
import { mostRid, sessionForm } from "./receipt.ts";
import { wishSchema } from "./ticket.ts";

const text = { type: "string" };
const base64url = { type: "string", pattern: "^[A-Za-z0-9_-]*$" };

const pricing = {
  description: "What the charge was reckoned with.",
  type: "object",
  properties: {
    network: text,
    coefficient: { description: "Thousandths.", type: "integer" },
    pricePerTokenNano: { description: "A decimal.", ...text },
    tokenUsdRate: { description: "A decimal; absent: not known.", ...text },
    asOf: text,
  },
  required: ["network", "coefficient", "pricePerTokenNano", "asOf"],
};

const receipt = {
  type: "object",
  properties: {
    session: base64url,
    rid: { type: "integer", minimum: 1 },
    report: { description: "The exact bytes that are signed.", ...base64url },
    sig: base64url,
    evidence_digest: { type: "string", pattern: "^sha256:" },
    pricing,
    usedCUMilli: { type: "integer", minimum: 0 },
    paidBeforeCUMilli: {
      description: "What earlier attempts with the same idempotency key have paid of its cost.",
      type: "integer",
      minimum: 1,
    },
    verified: { type: "boolean" },
    unverified_reason: { description: "The first check that failed.", ...text },
  },
  required: ["session", "rid", "report", "sig", "evidence_digest", "usedCUMilli", "verified"],
};

const signedPolicy = {
  type: "object",
  properties: {
    policy: { description: "The document, as it is signed.", ...base64url },
    sig: base64url,
    key: { description: "Ed25519; what a client pins.", ...base64url },
  },
  required: ["policy", "sig", "key"],
};

const ticket = {
  type: "object",
  properties: { ticket: text, expires_at: { type: "string", format: "date-time" } },
  required: ["ticket", "expires_at"],
};

const notFound = (description: string): readonly DocumentedRefusal[] => [
  { code: "GATEWAY_NOT_FOUND", description },
];

export const operations: Readonly<Record<ConfidentialOptions["do"], Operation>> = {
  ticket: {
    summary: "Make a ticket for a page",
    description:
      "A page shows it in place of an API key when it opens the encrypted stream: once, within 60 seconds.",
    body: { content: { "application/json": wishSchema }, required: true },
    answers: { 201: { description: "The ticket", content: { "application/json": ticket } } },
    refusals: [
      {
        code: "GATEWAY_INVALID_PARAMS",
        description: "The body is not JSON, or does not match its schema",
        details: violationsSchema(1),
      },
    ],
  },
  evidence: {
    summary: "Show evidence that a session has shown",
    path: {
      type: "object",
      properties: {
        digest: {
          description: "SHA-256 in hex, with or without `sha256:`.",
          type: "string",
          pattern: digestForm.source,
        },
      },
    },
    answers: {
      200: {
        description: "The evidence, as its enclave made it",
        content: { "application/json": { type: "object" } },
      },
    },
    refusals: notFound("It has not been seen, or too long ago"),
  },
  receipt: {
    summary: "Show what an enclave signed for one request",
    path: {
      type: "object",
      properties: {
        session: {
          description: "base64url of 16 bytes.",
          type: "string",
          pattern: sessionForm.source,
        },
        rid: {
          description: "The request's number in its session.",
          type: "integer",
          minimum: 1,
          maximum: mostRid,
        },
      },
    },
    answers: { 200: { description: "The receipt", content: { "application/json": receipt } } },
    refusals: notFound("There is no such receipt, or it is another's"),
  },
  policy: {
    summary: "Show what may run where, signed",
    answers: {
      200: { description: "The policy", content: { "application/json": signedPolicy } },
    },
  },
};
