/** The pipeline of `sluice connect` in front of a gateway, with a record of the bytes between the two. */
import { readFileSync } from "node:fs";
import { connect as connectTcp, createServer, type AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import type { PolicyDocument } from "../../../../plugins/confidential/protocol/policy-document.ts";
import type { Signer } from "../../../../plugins/confidential/protocol/suite.ts";
import type { Clock } from "../../../../src/plugin.ts";
import { packageFile } from "../../../../src/base/package-files.ts";
import { startBareGateway, type BareGateway } from "../../../../src/testing/gateway.ts";
import {
  platform,
  policyBy,
  startFakeGateway,
  type FakeGateway,
  type Script,
} from "../client/fake-gateway.ts";

export const localKey = "local_0123456789abcdef";
/** Text of every prompt. It must never be found in the recorded bytes. */
export const secret = "a secret about the harbour";
export const question = { model: "demo", messages: [{ role: "user", content: secret }] };
export const models = {
  data: [
    { id: "plain", network: "confidential-classic", evidence: "none" },
    { id: "demo\nOTHER=1", network: "confidential-alpha", evidence: "simulated" },
    {
      id: "demo",
      network: "confidential-alpha",
      evidence: "simulated",
      pricing: { prompt_cu_milli: 5, completion_cu_milli: 7, cached_cu_milli: 1 },
    },
  ],
};

export interface LocalGateway extends BareGateway {
  readonly remote: FakeGateway;
  /** Everything that the gateway has sent to the other one: the bytes of its connections, and unmasked messages. */
  readonly sent: () => string;
  readonly cut: () => void;
  ask(body?: object, path?: string, headers?: Record<string, string>): Promise<Response>;
}

export interface LocalOptions {
  readonly script?: Script;
  /** The member `evidence` of the network. Default: simulated evidence of the fake gateway. */
  readonly evidence?: object;
  readonly env?: Readonly<Record<string, string>>;
  /** The time, in milliseconds since 1970. */
  readonly at?: number;
  readonly edit?: (pipeline: string) => string;
}

export const simulated = { kind: "simulated", roots: [platform.root] };

/** Returns a signed policy document that lists one image. `now`: milliseconds since 1970. */
export const policyFor = (image: string, signer: Signer, now: number): Promise<PolicyDocument> =>
  policyBy(signer, { now, worker: { image_hashes: [image] } });

export async function startTemplate(
  t: Pick<TestContext, "after">,
  { evidence, env = {}, edit = (pipeline) => pipeline }: Omit<LocalOptions, "script">,
  clock?: Clock,
): Promise<BareGateway> {
  const template = readFileSync(packageFile("plugins/confidential/templates/connect.yaml"), "utf8");
  const local = await startBareGateway({
    pipeline: edit(template.replace("evidence: {}", () => `evidence: ${JSON.stringify(evidence)}`)),
    env: { SLUICE_LOCAL_KEY: localKey, ...env },
    ...(clock !== undefined && { clock }),
  });
  t.after(() => local[Symbol.asyncDispose]());
  return local;
}

export async function startLocalGateway(
  t: TestContext,
  { script = {}, evidence = simulated, env = {}, at, ...more }: LocalOptions = {},
): Promise<LocalGateway> {
  const remote = await startFakeGateway(t, script, { ...(at !== undefined && { at }) });
  remote.models = models;
  const recorder = await startRecorder(t, Number(new URL(remote.url).port));
  const variables = { SLUICE_URL: recorder.url, SLUICE_API_KEY: "gateway_dev_key", ...env };
  const local = await startTemplate(t, { ...more, evidence, env: variables }, remote.clock);
  return {
    ...local,
    remote,
    sent: () => recorder.sent() + Buffer.concat(remote.received).toString("latin1"),
    cut: recorder.cut,
    ask(body = question, path = "/v1/chat/completions", headers = {}) {
      const own = { authorization: `Bearer ${localKey}`, "content-type": "application/json" };
      const sent = { method: "POST", headers: { ...own, ...headers }, body: JSON.stringify(body) };
      return fetch(local.url + path, sent);
    },
  };
}

interface Recorder {
  readonly url: string;
  readonly sent: () => string;
  readonly cut: () => void;
}

async function startRecorder(t: TestContext, port: number): Promise<Recorder> {
  const sent: Buffer[] = [];
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((client) => {
    const upstream = connectTcp(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
    }
    client.on("data", (bytes) => sent.push(bytes as Buffer));
    client.pipe(upstream).pipe(client);
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  t.after(() => {
    cut();
    server.close();
  });
  return {
    // A server that listens on TCP has an address of this type.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent: () => Buffer.concat(sent).toString("latin1"),
    cut,
  };
}
