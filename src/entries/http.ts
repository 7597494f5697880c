/**
 * HTTP for plugins that reach backends of their own, exported as `sluice-gateway/internal/http`: a client for HTTP/1.1, choice and
 * ejection of backends, WebSockets, event streams, JSON without parsing, and addresses of clients.
 */
export { addressList, isAddressBlock } from "../base/address-list.ts";
export { addressKey } from "../base/address.ts";
export { isLoopback } from "../config/loopback.ts";
export { addressReader, clientScheme } from "../message/address.ts";
export { ArrivalRate } from "../http/arrival-rate.ts";
export { failingServers } from "../http/backend-servers.ts";
export { etagOf, matchesEtag } from "../http/etag.ts";
export type { RpcItem } from "../http/json/envelope.ts";
export {
  closeBracket,
  findMember,
  malformed,
  openBrace,
  openBracket,
  quote,
  rangeIs,
  readElements,
  readMembers,
  skipSpace,
  skipString,
  skipValue,
  type ReadMember,
} from "../http/json/scan.ts";
export { isRequestId } from "../base/request-id.ts";
export { Liveness, pingMs, type PingableSocket } from "../http/liveness.ts";
export {
  sendRequest,
  type HttpRequest,
  type HttpResponse,
  type SendRequest,
} from "../http/request.ts";
export { messageLimits } from "../http/message-limits.ts";
export { offeredSubprotocols } from "../message/subprotocols.ts";
export { startTicker, type Ticker } from "../http/ticker.ts";
export {
  UnfinishedBytes,
  type HeldBytes,
  type UnfinishedLimits,
} from "../memory/unfinished-bytes.ts";
export {
  randomSampler,
  chooseBackend,
  roundRobin,
  type Backend,
  type CandidateSampler,
} from "../http/upstream/choose-backend.ts";
export { Ejection, type Absence, type EjectionPolicy } from "../http/upstream/ejection.ts";
export { BodyCollector } from "../http/upstream/http1/body-collector.ts";
export { causeOf, failureCounter, failureText } from "../http/upstream/failure-cause.ts";
export { Http1Client } from "../http/upstream/http1/client.ts";
export type {
  Http1Carrier,
  RetryPolicy,
  UpstreamExchange,
} from "../http/upstream/http1/exchange.ts";
export type { ResponseHead } from "../http/upstream/http1/response-head.ts";
export { upstreamIn } from "../http/upstream/service.ts";
