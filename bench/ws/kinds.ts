export interface Kind {
  readonly request: string;
  readonly notification: string;
  /** Number of notifications that a new client gets at once. */
  readonly firstNotifications: number;
  readonly notificationsPerBlock: number;
}

export const kinds: Readonly<Record<string, Kind>> = {
  chainHead_v1_follow: {
    request: '{"jsonrpc":"2.0","id":1,"method":"chainHead_v1_follow","params":[true]}',
    notification: "chainHead_v1_followEvent",
    firstNotifications: 2,
    notificationsPerBlock: 3,
  },
  chain_subscribeNewHeads: {
    request: '{"jsonrpc":"2.0","id":1,"method":"chain_subscribeNewHeads","params":[]}',
    notification: "chain_newHead",
    firstNotifications: 1,
    notificationsPerBlock: 1,
  },
};
