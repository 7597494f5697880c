/** Surface `connect-page`: shows what was verified and billed, as a page or as JSON. */
import { defineSurface, type Operation, type Reply } from "sluice-gateway/plugin";
import { checkText } from "../client/check-meanings.ts";
import { page, policy } from "./page.ts";

export default defineSurface({
  name: "connect-page",
  description: "Shows which enclaves were verified, and the last requests with their bills.",
  uses: ["sealed-networks"],
  operation: () => operation,
  start(_, host) {
    const sealed = host.use("sealed-networks");
    const html: Reply = {
      status: 200,
      headers: [
        "content-type",
        "text/html; charset=utf-8",
        "content-security-policy",
        policy,
        ...shared,
      ],
      body: page,
    };
    return {
      answer({ request }) {
        if (request.headers.accept?.includes("text/html") === true) return html;
        const body = JSON.stringify({
          verifications: sealed.verifications().map((one) => ({
            ...one,
            checks: one.checks.map((check) => ({ ...check, text: checkText(check) })),
          })),
          requests: sealed.requests(),
        });
        return { status: 200, headers: ["content-type", "application/json", ...shared], body };
      },
    };
  },
});

const shared = ["cache-control", "no-store", "vary", "accept", "x-content-type-options", "nosniff"];

const list = { type: "array", items: { type: "object" } };

const operation: Operation = {
  summary: "Show what was verified",
  answers: {
    200: {
      description:
        "The verified enclaves and the last requests; a page for clients that accept HTML.",
      content: {
        "application/json": {
          type: "object",
          properties: { verifications: list, requests: list },
          required: ["verifications", "requests"],
        },
        "text/html": { type: "string" },
      },
    },
  },
};
