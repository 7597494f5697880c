/** The clients of a campaign. Each of them repeats one kind of request, at all replicas. */
import { createRandom, sleep, type Random } from "../../../bench/soak/random.ts";
import type { Accounts, ClientKey } from "./accounts.ts";
import type { OnceOnly, Revocation } from "../../checker/history.ts";
import { chatBody, maxChatMilliCu, readMilliCu, transferMilliCu } from "./pipeline.ts";
import { now, type Answer, type Sender } from "./send.ts";

export interface ClientContext {
  readonly accounts: Accounts;
  readonly sender: Sender;
  readonly replicas: number;
  /** Number of clients that read with unlimited credit; they send most of the requests. Default: 6. */
  readonly readers?: number | undefined;
  readonly signal: AbortSignal;
}

/** Facts that the clients know in addition to their calls: the bodies of requests that may take effect once, and keys. */
export interface Known {
  readonly revocations: Revocation[];
  /** By the amount that is bought, which is different for each idempotency key. */
  readonly bought: Map<number, string[]>;
  /** By recipient, which is different for each confirmation token. */
  readonly transferred: Map<string, string[]>;
  readonly limitedKeys: Spending;
  readonly smallWorkspaces: Spending;
  /** Tokens that were refused although they were used for the first time. */
  refusedTokens: number;
}

/** Keys to spend. Those up to the place `at` have been used. */
export interface Spending {
  readonly keys: readonly ClientKey[];
  at: number;
  refusals: number;
}

const maxRefusals = 20;

interface Client extends ClientContext {
  readonly random: Random;
  readonly known: Known;
}

type Work = (client: Client) => Promise<void>;

const work: readonly (readonly [work: Work, count: number, pauseMs: number])[] = [
  [read, 6, 60],
  [chat, 2, 150],
  [spendLimitedKeys, 3, 50],
  [spendSmallWorkspaces, 3, 50],
  [spendInShop, 1, 60],
  [buy, 1, 700],
  [transfer, 2, 400],
  [ping, 3, 60],
  [revoke, 1, 3_000],
];

export async function runClients(context: ClientContext, seed: number): Promise<Known> {
  const known: Known = {
    revocations: [],
    bought: new Map(),
    transferred: new Map(),
    limitedKeys: { keys: context.accounts.limitedKeys, at: 0, refusals: 0 },
    smallWorkspaces: { keys: context.accounts.smallWorkspaces, at: 0, refusals: 0 },
    refusedTokens: 0,
  };
  const running = work.flatMap(([repeated, count, pauseMs], kind) => {
    const length = repeated === read ? (context.readers ?? count) : count;
    return Array.from({ length }, async (_, place) => {
      const random = createRandom(seed + 7919 * (10 * kind + place + 1));
      const client = { ...context, random, known };
      while (!context.signal.aborted) {
        await repeated(client);
        await sleep(pauseMs / 2 + random.int(pauseMs));
      }
    });
  });
  await Promise.all(running);
  return known;
}

/** Sends one node call, whose parameter is the id of the call. */
export function readOnce(
  sender: Sender,
  slot: number,
  key: ClientKey,
  timeoutMs?: number,
): Promise<Answer> {
  const body = (id: string): object => {
    const params = [`0x${Buffer.from(id).toString("hex")}`];
    return { jsonrpc: "2.0", id: 1, method: "state_getStorageHash", params };
  };
  const more = timeoutMs === undefined ? {} : { timeoutMs };
  return sender.send({ slot, key, path: "/v1/ledger/rpc", body, maxMilliCu: readMilliCu, ...more });
}

function anySlot({ random, replicas }: Client): number {
  return random.int(replicas);
}

/** Some clients leave early when a replica is slow. */
async function read(client: Client): Promise<void> {
  const timeoutMs = client.random.pick([500, 3_000, 30_000]);
  await readOnce(client.sender, anySlot(client), client.accounts.rich, timeoutMs);
}

async function chat(client: Client): Promise<void> {
  await client.sender.send({
    slot: anySlot(client),
    key: client.accounts.rich,
    path: "/v1/chat/completions",
    body: chatBody,
    maxMilliCu: maxChatMilliCu,
  });
}

function spendLimitedKeys(client: Client): Promise<void> {
  return spend(client, client.known.limitedKeys);
}

function spendSmallWorkspaces(client: Client): Promise<void> {
  return spend(client, client.known.smallWorkspaces);
}

async function spend(client: Client, spending: Spending): Promise<void> {
  const key = spending.keys[spending.at];
  if (key === undefined) return;
  const { status } = await readOnce(client.sender, anySlot(client), key);
  if (status !== 429) return;
  const isLast = spending.at === spending.keys.length - 1;
  if (spending.keys[spending.at] === key && !isLast && ++spending.refusals === maxRefusals) {
    spending.at++;
    spending.refusals = 0;
  }
  await sleep(100);
}

async function spendInShop(client: Client): Promise<void> {
  await readOnce(client.sender, anySlot(client), client.accounts.shop);
}

/** Buys credit with an idempotency key: at two replicas at the same time, and again. */
async function buy(client: Client): Promise<void> {
  const { known, accounts, sender, random } = client;
  const { shop } = accounts;
  const amount = 100 + known.bought.size;
  const bodies: string[] = [];
  known.bought.set(amount, bodies);
  const attempt = async (): Promise<void> => {
    const { status, isWhole, text } = await sender.send({
      slot: anySlot(client),
      key: shop,
      path: `/tma/workspaces/${shop.workspaceId}/cu/purchase`,
      body: { amount_cu_milli: amount },
      headers: { "idempotency-key": `buy-${amount}` },
      maxMilliCu: 0,
    });
    if (isWhole && status >= 200 && status < 300) bodies.push(text);
  };
  await Promise.all([attempt(), attempt()]);
  await sleep(random.int(500));
  await attempt();
}

/** Asks for a confirmation token, and uses it at two replicas at the same time, and again. */
async function transfer(client: Client): Promise<void> {
  const { known, accounts, sender } = client;
  const to = `to-${known.transferred.size}`;
  const bodies: string[] = [];
  known.transferred.set(to, bodies);
  const call = (params: object): Promise<Answer> =>
    sender.send({
      slot: anySlot(client),
      key: accounts.rich,
      path: "/rpc",
      body: { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool: "transfer", params } },
      maxMilliCu: transferMilliCu,
    });
  const asked = await call({ to });
  const token = /"confirmation_token":"([^"]+)"/.exec(asked.text)?.[1];
  if (token === undefined) return;
  const confirmation_token = token;
  const confirm = async (): Promise<number> => {
    const { status, isWhole, text } = await call({ to, confirmation_token });
    // An error of JSON-RPC has the status 200, too.
    if (isWhole && status === 200 && text.includes('"result"')) bodies.push(text);
    return status;
  };
  const both = await Promise.all([confirm(), confirm()]);
  if (both.every((status) => status === 410)) known.refusedTokens++;
  await confirm();
}

async function ping(client: Client): Promise<void> {
  const key = client.accounts.slow;
  await client.sender.send({ slot: anySlot(client), key, path: "/ping", maxMilliCu: 0 });
}

/** Uses a key at all replicas, and revokes it at the same time. */
async function revoke(client: Client): Promise<void> {
  const { accounts, sender, known, replicas } = client;
  const key = accounts.toRevoke[known.revocations.length];
  if (key === undefined) return;
  let isOver = false;
  const using = Array.from({ length: replicas }, async (_, slot) => {
    while (!isOver) {
      await readOnce(sender, slot, key);
      await sleep(50);
    }
  });
  await sleep(200);
  const revocation = await accounts.revoke(key, now);
  await Promise.all(
    Array.from({ length: replicas }, (_, slot) => readOnce(sender, slot, key, 3_000)),
  );
  isOver = true;
  await Promise.all(using);
  // A revocation whose outcome is unknown is also counted, because the count selects the next key.
  const unknown = { committedAt: 0, confirmedAt: 0, confirmedBy: [], notConfirmedBy: [] };
  known.revocations.push(revocation ?? { keyId: key.keyId, ...unknown });
}

export function onceOnly(
  known: Known,
  purchases: ReadonlyMap<number, number>,
  transfers: ReadonlyMap<string, number>,
): OnceOnly[] {
  return [
    ...[...known.bought].map(([amount, bodies]) => ({
      id: `purchase of ${amount}`,
      effects: purchases.get(amount) ?? 0,
      bodies,
    })),
    ...[...known.transferred].map(([to, bodies]) => ({
      id: `transfer ${to}`,
      effects: transfers.get(`/${to}`) ?? 0,
      // Only one use of a token is answered, so a second body would be a second use.
      bodies: bodies.map((body, place) => `${place} ${body}`),
    })),
  ];
}
