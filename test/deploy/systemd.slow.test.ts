/** The guide of the unit, followed without root and systemd: its files, commands and the unit's own command lines. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { cert, key } from "../certificate.ts";
import { temporaryFolder } from "../store/folder.ts";

const root = join(import.meta.dirname, "../..");
const main = join(root, "src/main.ts");
const unit = readFileSync(join(root, "deploy/systemd/sluice.service"), "utf8");
const guide = readFileSync(join(root, "docs/deploy/systemd.md"), "utf8");

function blocks(language: string): string[] {
  return [...guide.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].flatMap(([, name, text = ""]) =>
    name === language ? [text] : [],
  );
}

/** Commands that need root, the network or systemd are left out. */
const leftOut = /^(npm|useradd|certbot|cp|systemctl|curl) .*\n/gm;

async function statusOf(url: string, apiKey: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const headers = { authorization: `Bearer ${apiKey}` };
  get(url, { ca: cert, headers, agent: false }, (response) => {
    response.resume().on("end", () => resolve(response.statusCode));
  }).on("error", reject);
  return promise;
}

test("the guide leads to a gateway in prod that serves HTTPS with the first key", async (t) => {
  const folder = temporaryFolder(t);
  const place = (text: string): string =>
    text
      .replaceAll("/opt/sluice/node_modules/sluice-gateway/src/main.js", main)
      .replaceAll("/usr/bin/node", process.execPath)
      .replaceAll(/(?<=^|\s)node (?=\/)/gm, `${process.execPath} `)
      .replaceAll("/etc/sluice", join(folder, "etc"))
      .replaceAll("/var/lib/sluice", join(folder, "data"))
      .replaceAll("runuser -u sluice -- ", "")
      .replaceAll(" -g sluice", "");
  const shell = (text: string): string => {
    const env = { PATH: process.env["PATH"] };
    const script = `set -e\n${place(text.replace(leftOut, ""))}`;
    const { status, stdout, stderr } = spawnSync("bash", ["--norc", "-c", script], {
      env,
      encoding: "utf8",
    });
    assert.equal(status, 0, stdout + stderr);
    return stdout;
  };
  const [install = "", , , start = ""] = blocks("");
  shell(install);
  const etc = join(folder, "etc");
  assert.equal(statSync(join(etc, "gateway-secret")).mode & 0o777, 0o640);
  const [variables = "", hook = ""] = blocks("sh");
  writeFileSync(
    join(etc, "environment"),
    place(variables).replace("PORT=443", "PORT=0\nADMIN_PORT=0"),
  );
  const [tls = ""] = blocks("yaml");
  const file = join(etc, "pipeline.yaml");
  const shipped = readFileSync(file, "utf8");
  const edited = shipped.replace(/^server:.*\n/m, place(tls));
  assert.notEqual(edited, shipped);
  writeFileSync(file, edited);

  // The hook that certbot runs.
  const lineage = join(folder, "lineage");
  mkdirSync(lineage);
  writeFileSync(join(lineage, "fullchain.pem"), cert);
  writeFileSync(join(lineage, "privkey.pem"), key);
  shell(`RENEWED_LINEAGE=${lineage}\n${hook}`);

  // StateDirectory= makes this folder.
  mkdirSync(join(folder, "data"));
  const [definition = "", create = "", keys = ""] = start
    .replace(leftOut, "")
    .split(/^(?=sluice (?:workspaces|keys))/m);
  const workspace = /ws_\w+/.exec(shell(definition + create))?.[0] ?? assert.fail();
  const printed = shell(definition + keys.replace("WORKSPACE", workspace));
  const apiKey = /gateway_prod_\w+/.exec(printed)?.[0] ?? assert.fail(printed);
  shell(`${definition}sluice check --strict`);

  // The command of the unit reads the variables of its EnvironmentFile.
  assert.match(unit, /^EnvironmentFile=\/etc\/sluice\/environment$/m);
  const lines = readFileSync(join(etc, "environment"), "utf8").trim().split("\n");
  const env = Object.fromEntries(lines.map((line) => line.split("=", 2))) as Record<string, string>;
  const [program = "", ...args] = place(/^ExecStart=(.*)$/m.exec(unit)?.[1] ?? "").split(" ");
  const gateway = spawn(program, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  const closed = once(gateway, "close");
  try {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    closed.then(() => reject(new Error("the gateway ended")), reject);
    createInterface({ input: gateway.stdout }).on("line", (line) => {
      const port = /"url":"https:\/\/0\.0\.0\.0:(\d+)"/.exec(line)?.[1];
      if (port !== undefined) resolve(`https://127.0.0.1:${port}`);
    });
    assert.equal(await statusOf(`${await promise}/v1/models`, apiKey), 200);
  } finally {
    gateway.kill("SIGKILL");
    await closed;
  }
});

test("the unit may bind port 443, and has no other capability", () => {
  for (const name of ["CapabilityBoundingSet", "AmbientCapabilities"]) {
    assert.equal(new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1], "CAP_NET_BIND_SERVICE");
  }
});
