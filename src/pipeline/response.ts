/** The server's response, which knows its exchange: its listeners find it through `this` and are shared by all. */
import { ServerResponse } from "node:http";
import type { LiveExchange } from "./exchange.ts";

export class ExchangeResponse extends ServerResponse {
  exchange: LiveExchange | undefined = undefined;
}
