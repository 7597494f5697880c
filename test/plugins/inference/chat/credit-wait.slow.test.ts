/** While a completion waits for its credit, the client may leave or the gateway may stop. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import type { Metering } from "sluice-gateway/services";
import { until } from "../../confidential/confidential-relay/wait.ts";
import { chatBody, startChat, tokenMilli, type ChatGateway } from "./gateway.ts";

interface HeldCredit {
  readonly metering: Metering;
  /** Each function lets one reservation continue. */
  readonly held: (() => void)[];
  readonly taken: string[];
}

function holdCredit({ gateway }: ChatGateway): HeldCredit {
  const metering = gateway.gateway.use("metering") ?? assert.fail("no metering");
  const atOnce = metering.reserve.bind(metering);
  const held: (() => void)[] = [];
  const taken: string[] = [];
  metering.reserve = async (...args) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held.push(resolve);
    await promise;
    const result = await atOnce(...args);
    taken.push(result.kind);
    return result;
  };
  return { metering, held, taken };
}

/** Sends a request. The result half-closes its connection, and resolves when the gateway has closed it, too. */
function begin({ gateway }: ChatGateway, stream: boolean): () => Promise<void> {
  const body = JSON.stringify(chatBody({ stream }));
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.resume();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${gateway.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  const closed = once(socket, "close");
  return async () => {
    socket.end();
    await closed;
  };
}

for (const stream of [true, false]) {
  test(`credit that arrives after the client has left is given back (stream: ${stream})`, async () => {
    await using chat = await startChat();
    const { metering, held, taken } = holdCredit(chat);
    const leave = begin(chat, stream);
    await until(() => held.length === 1);
    await leave();
    held[0]?.();
    await until(() => taken.length === 1);
    assert.deepEqual(taken, ["reserved"]);
    await until(
      async () => (await metering.workspaceUsage(chat.gateway.workspaceId)).openMilliCu === 0,
    );
    assert.equal(chat.worker.received.length, 0, "the worker is not asked");
    assert.deepEqual(chat.charges(), []);
  });
}

test("a request that waits for credit while the gateway drains is answered and charged", async () => {
  await using chat = await startChat();
  const { held } = holdCredit(chat);
  const asked = chat.ask();
  await until(() => held.length === 1);
  const stopped = chat.gateway.gateway.stop();
  held[0]?.();
  assert.equal((await asked).status, 200);
  await stopped;
  assert.deepEqual(
    chat.charges().map(({ usedMilliCu }) => usedMilliCu % tokenMilli),
    [0],
  );
});
