/** The answers of the admin listener: text, JSON, and errors in the canonical envelope. */
import type { ServerResponse } from "node:http";
import { refuse, type GatewayCode } from "../base/errors.ts";

/** The server sends no body if the request is HEAD. */
export function sendText(
  response: ServerResponse,
  status: number,
  contentType: string,
  text: string,
): void {
  response.writeHead(status, {
    "content-type": contentType,
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  sendText(response, status, "application/json; charset=utf-8", JSON.stringify(body));
}

export function sendRefusal(
  response: ServerResponse,
  code: GatewayCode,
  options: Parameters<typeof refuse>[1] = {},
): void {
  const { status, headers = [], body = "" } = refuse(code, options);
  response.writeHead(status, [...headers, "content-length", String(Buffer.byteLength(body))]);
  response.end(body);
}
