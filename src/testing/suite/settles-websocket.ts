/** The rule `settles` for surfaces that answer WebSocket upgrades. A client on loopback ends each connection in another way. */
import { WebSocket } from "ws";
import { requestPath } from "../test-plugin.ts";
import {
  eventually,
  notSettled,
  openFor,
  thrown,
  within,
  type Subject,
  type SubjectGateway,
} from "./subject.ts";

type Act = (client: WebSocket, gateway: SubjectGateway, subject: Subject) => unknown;

const ways: readonly (readonly [string, Act])[] = [
  ["close", (client) => client.close(1000)],
  ["client gone", (client) => client.terminate()],
  [
    "messages",
    (client) => {
      client.send("text");
      client.send('{"jsonrpc":"2.0","id":1,"method":"x"}');
      client.send(Buffer.from([0, 1, 255]));
      client.close(1000);
    },
  ],
  ["reload", (_, gateway, { plugin }) => void gateway.restart(plugin)],
  ["stop of the gateway", (_, gateway) => gateway.goAway()],
  // An hour exceeds every time limit.
  ["time-out", (_, gateway) => gateway.clock.advance(3_600_000)],
];

export async function webSocketProblems(subject: Subject): Promise<string[]> {
  const { example, patienceMs } = subject;
  const { path = requestPath(example.path ?? "/*"), headers = {} } = example.request ?? {};
  await using gateway = await openFor(subject);
  const url = `${await gateway.listen()}${path}`;
  const problems: string[] = [];
  for (const [name, act] of [["client gone at once", undefined] as const, ...ways]) {
    const from = gateway.lines.length;
    const client = connect(url, headers);
    if (act === undefined) client.terminate();
    else if (await opened(client, patienceMs)) {
      await act(client, gateway, subject);
      // The client leaves, unless it waits for the closing handshake.
      if (client.readyState === WebSocket.OPEN) client.terminate();
    }
    const isSettled = await eventually(() => gateway.running === 0, patienceMs);
    client.terminate();
    if (!isSettled) problems.push(notSettled(name, patienceMs));
    problems.push(...thrown(gateway.lines.slice(from), subject, name));
    if (!isSettled) break;
  }
  return problems;
}

function connect(url: string, headers: Readonly<Record<string, string>>): WebSocket {
  const { "sec-websocket-protocol": protocols, ...others } = headers;
  const offered = protocols?.split(",").map((each) => each.trim()) ?? [];
  const client = new WebSocket(url, offered, { headers: others });
  // A refused upgrade and a lost connection are errors of this client, which only has to end.
  client.on("error", () => {});
  return client;
}

/** Resolves to false if the upgrade is refused. */
async function opened(client: WebSocket, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  client.once("open", () => resolve(true));
  client.once("close", () => resolve(false));
  return (await within(promise, ms)) ?? false;
}
