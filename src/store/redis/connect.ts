import { Cluster, Redis, type RedisOptions } from "ioredis";
import type { RedisPlace } from "./redis-url.ts";

const connectMs = 1_000;
const reconnectMs = 500;
/** A connection on which no answer arrives for this time is opened again. */
const silentMs = 3_000;

export type RedisClient = Redis | Cluster;

/** Connects at once, and again whenever the connection is lost. The caller must add an `error` listener. */
export function connectRedis(place: RedisPlace, commandMs: number): RedisClient {
  const { kind, hosts, isTls, username, password, db, master } = place;
  const options: RedisOptions = {
    connectionName: "sluice",
    username,
    password,
    db,
    ...(isTls && { tls: {} }),
    connectTimeout: connectMs,
    socketTimeout: silentMs,
    retryStrategy: () => reconnectMs,
    // A command that cannot be sent now fails now. A command whose answer is lost is not sent again, because it may
    // have taken tokens.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: commandMs,
    enableAutoPipelining: true,
    // After a failover, the former master refuses writes. A new connection leads to the new master.
    reconnectOnError: ({ message }) => message.startsWith("READONLY"),
  };
  if (kind === "cluster") {
    return new Cluster(hosts, {
      redisOptions: options,
      clusterRetryStrategy: () => reconnectMs,
      slotsRefreshTimeout: connectMs,
      // A node that was away is only found again when the slots are read.
      slotsRefreshInterval: silentMs,
      enableOfflineQueue: false,
      enableAutoPipelining: true,
    });
  }
  if (kind === "sentinel") {
    return new Redis({
      ...options,
      sentinels: hosts,
      name: master,
      sentinelRetryStrategy: () => reconnectMs,
    });
  }
  const [{ host, port } = {}] = hosts;
  return new Redis({ ...options, host, port });
}
