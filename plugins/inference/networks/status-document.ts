/**
 * The status document of a network, `{ price_per_token_nano, workers: [{ id, model, coefficient, state, url? }] }`, or
 * the models that an OpenAI-compatible server lists (decisions.md section 8).
 */
import type {
  ListedWorker,
  NetworkStatus,
  TokenPrices,
  WorkerState,
} from "sluice-gateway/services";
import { readTokenPrices } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";

/** Maximum price: one native token per token of text. Much higher reservations could not be computed exactly. */
const maxPriceNano = 1_000_000_000;
const maxWorkers = 10_000;
const maxIdChars = 256;
/** A thousand times the price of the network. */
const maxCoefficient = 1_000_000;

/**
 * Undefined if the document is not valid. A malformed worker entry is skipped. `protocols`: the allowed URL schemes.
 */
export function readStatus(
  value: unknown,
  protocols: readonly string[] = httpProtocols,
): NetworkStatus | undefined {
  if (!isObject(value) || !Array.isArray(value["workers"])) return undefined;
  const { price_per_token_nano: price, workers } = value;
  const prices = isAbsent(price) ? undefined : readPrices(price);
  if (prices === undefined && !isAbsent(price)) return undefined;
  const listed = new Map<string, ListedWorker>();
  for (const one of workers.slice(0, maxWorkers)) {
    const worker = readWorker(one, protocols);
    if (worker !== undefined) listed.set(worker.id, worker);
  }
  return { prices, workers: [...listed.values()] };
}

/** Returns the reason why `readStatus` refused a document, without any part of it, for the log. */
export function statusProblem(value: unknown): string {
  if (!isObject(value)) return "it is not a JSON object";
  if (!Array.isArray(value["workers"])) return "it has no list of workers";
  return `price_per_token_nano is not a decimal from 0 to ${maxPriceNano}, or an object with such prices`;
}

export function readPrices(value: unknown): TokenPrices | undefined {
  const prices = readTokenPrices(value);
  return Number(prices?.pricePerTokenNano) <= maxPriceNano ? prices : undefined;
}

const httpProtocols: readonly string[] = ["http:", "https:"];

function readWorker(value: unknown, allowed: readonly string[]): ListedWorker | undefined {
  if (!isObject(value)) return undefined;
  const { id, model, coefficient = 1000, state = "active", url } = value;
  if (!isName(id) || !isName(model) || !isState(state)) return undefined;
  if (typeof coefficient !== "number" || !Number.isInteger(coefficient)) return undefined;
  if (coefficient < 0 || coefficient > maxCoefficient) return undefined;
  if (url === undefined || url === null) return { id, model, coefficient, state, url: undefined };
  return isUrl(url, allowed) ? { id, model, coefficient, state, url } : undefined;
}

/** Reads the answer of `GET /v1/models`. Each model counts as one active worker with coefficient 1000. */
export function readModels(value: unknown): NetworkStatus | undefined {
  if (!isObject(value) || !Array.isArray(value["data"])) return undefined;
  const workers = new Map<string, ListedWorker>();
  for (const one of value["data"].slice(0, maxWorkers)) {
    const id = isObject(one) ? one["id"] : undefined;
    if (!isName(id)) continue;
    workers.set(id, { id, model: id, coefficient: 1000, state: "active", url: undefined });
  }
  return { prices: undefined, workers: [...workers.values()] };
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= maxIdChars;
}

function isState(value: unknown): value is WorkerState {
  return value === "active" || value === "busy" || value === "draining";
}

function isUrl(value: unknown, allowed: readonly string[]): value is string {
  const url = typeof value === "string" ? URL.parse(value) : null;
  return url !== null && allowed.includes(url.protocol);
}
