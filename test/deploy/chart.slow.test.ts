/** The chart in deploy/chart, rendered by a stand-in for Helm (chart/render.go). No cluster is used. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute";
import { PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";
import { Ajv } from "ajv";
import { Deployment } from "kubernetes-models/apps/v1/Deployment";
import { StatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import { Job } from "kubernetes-models/batch/v1/Job";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import { ConfigMap } from "kubernetes-models/v1/ConfigMap";
import { Service } from "kubernetes-models/v1/Service";
import { ServiceAccount } from "kubernetes-models/v1/ServiceAccount";
import { parse, parseAllDocuments } from "yaml";
import { skipWithout } from "../skip-without.ts";

const root = join(import.meta.dirname, "../..");
const chart = join(root, "deploy/chart");
const gopath = "/usr/share/gocode";
const hasGo =
  spawnSync("go", ["version"]).error === undefined &&
  existsSync(join(gopath, "src/github.com/Masterminds/sprig"));
const skip = skipWithout("Go with its packages yaml.v3 and sprig", hasGo);
const folder = mkdtempSync(join(tmpdir(), "sluice-chart-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const renderer = join(folder, "render");
if (hasGo) {
  const env = { ...process.env, GO111MODULE: "off", GOPATH: gopath, GOFLAGS: "" };
  const source = join(import.meta.dirname, "chart/render.go");
  execFileSync("go", ["build", "-o", renderer, source], {
    env: { ...env, GOCACHE: join(folder, "cache") },
  });
}

type Labels = Readonly<Record<string, string>>;

/** The members of a rendered document that the tests read. */
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly replicas?: number;
    readonly groups?: unknown;
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly ports?: readonly { readonly targetPort: string }[];
    readonly template?: {
      readonly metadata: { readonly labels: Labels };
      readonly spec: {
        readonly initContainers?: readonly Container[];
        readonly containers: readonly Container[];
        readonly volumes: readonly { readonly name: string }[];
      };
    };
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
  };
}

interface Container {
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly { readonly name: string }[];
  readonly volumeMounts: readonly { readonly name: string }[];
}

const models = {
  ConfigMap,
  Deployment,
  HTTPRoute,
  HorizontalPodAutoscaler,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  PrometheusRule,
  Service,
  ServiceAccount,
  ServiceMonitor,
  StatefulSet,
};

function run(values: object) {
  const file = join(folder, "values.json");
  writeFileSync(file, JSON.stringify(values));
  return spawnSync(renderer, [chart, file, "test"], { encoding: "utf8" });
}

function render(values: object): Manifest[] {
  const { status, stdout, stderr } = run(values);
  assert.equal(status, 0, stderr);
  return parseAllDocuments(stdout).flatMap((document) => {
    assert.deepEqual(document.errors, []);
    const manifest = document.toJS() as Manifest | null;
    return manifest === null ? [] : [manifest];
  });
}

const schema = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")) as object;
const isValues = new Ajv({ allErrors: true, strict: false }).compile(schema);
const defaults = parse(readFileSync(join(chart, "values.yaml"), "utf8")) as object;
const secret = { existingSecret: "sluice" };
const everything = {
  secret,
  durability: "none",
  replicas: 2,
  database: { existingSecret: "database" },
  storeUpgrade: { existingSecret: "owner" },
  redis: { existingSecret: "redis" },
  env: [{ name: "LEDGER_RPC_URL", value: "https://node.example" }],
  envFrom: [{ configMapRef: { name: "more" } }],
  image: { repository: "registry.example/sluice", digest: `sha256:${"0".repeat(64)}` },
  imagePullSecrets: [{ name: "registry" }],
  autoscaling: { enabled: true },
  httpRoute: { enabled: true, parentRefs: [{ name: "public" }], hostnames: ["api.example"] },
  metrics: {
    serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
    prometheusRule: { enabled: true, labels: { release: "prometheus" } },
  },
  networkPolicy: {
    clients: [{ namespaceSelector: { matchLabels: { name: "public" } } }],
    scrapers: [{ namespaceSelector: { matchLabels: { name: "monitoring" } } }],
  },
  service: { annotations: { a: "b" } },
  serviceAccount: { annotations: { a: "b" } },
  podAnnotations: { a: "b" },
  podLabels: { team: "edge" },
  nodeSelector: { "kubernetes.io/arch": "amd64" },
  tolerations: [{ key: "a", operator: "Exists" }],
  affinity: { podAntiAffinity: {} },
};
const nothing = {
  secret,
  existingConfigMap: "mine",
  checkBeforeStart: false,
  networkPolicy: { enabled: false },
  podDisruptionBudget: { enabled: false },
  topologySpread: { enabled: false },
  serviceAccount: { create: false },
};
const valueSets = {
  "the defaults": { secret },
  everything,
  "as little as possible": nothing,
  "a database and a volume": { secret, database: { existingSecret: "database" } },
};

for (const [title, values] of Object.entries(valueSets)) {
  test(`every document is valid, and its names agree: ${title}`, { skip }, () => {
    const manifests = render(values);
    for (const manifest of manifests) {
      assert.ok(Object.hasOwn(models, manifest.kind), manifest.kind);
      const Model = models[manifest.kind as keyof typeof models];
      // The models describe each kind; a document that does not match throws.
      new Model(manifest as never).validate();
    }
    const workload = workloadOf(manifests);
    const { metadata, spec: pod } = workload?.template ?? assert.fail("no workload");
    assertLabels(metadata.labels, workload?.selector?.matchLabels);
    const volumes = [
      ...pod.volumes.map(({ name }) => name),
      ...(workload?.volumeClaimTemplates ?? []).map((claim) => claim.metadata.name),
    ];
    for (const { volumeMounts } of [...(pod.initContainers ?? []), ...pod.containers]) {
      assert.deepEqual(volumeMounts.map(({ name }) => name).toSorted(), volumes.toSorted());
    }
    const ports = pod.containers.flatMap((container) => container.ports ?? []);
    const names = ports.map(({ name }) => name);
    const services = manifests.filter(({ kind }) => kind === "Service");
    for (const service of services) {
      assertLabels(metadata.labels, service.spec?.selector);
      for (const { targetPort } of service.spec?.ports ?? []) assert.ok(names.includes(targetPort));
    }
    const monitor = manifests.find(({ kind }) => kind === "ServiceMonitor");
    if (monitor !== undefined) {
      const admin = services.find((service) => service.metadata.name.endsWith("-admin"));
      assertLabels(admin?.metadata.labels ?? {}, monitor.spec?.selector?.matchLabels);
    }
  });
}

function workloadOf(manifests: readonly Manifest[]): Manifest["spec"] {
  return manifests.find(({ kind }) => kind === "StatefulSet" || kind === "Deployment")?.spec;
}

function assertLabels(labels: Labels, selector: Labels | undefined): void {
  assert.ok(selector !== undefined && Object.keys(selector).length > 0);
  for (const [name, value] of Object.entries(selector)) assert.equal(labels[name], value, name);
}

test("durability decides between a StatefulSet with a volume and a Deployment", { skip }, () => {
  const kinds = (values: object) => render(values).map(({ kind }) => kind);
  assert.ok(kinds({ secret }).includes("StatefulSet"));
  const none = kinds(everything);
  assert.ok(none.includes("Deployment") && none.includes("HorizontalPodAutoscaler"));
});

test("gateways without a volume have a data folder only without a database", { skip }, () => {
  const hasFolder = (values: object): boolean => {
    const workload = workloadOf(render(values));
    const pod = workload?.template?.spec ?? assert.fail("no workload");
    const names = pod.containers.flatMap(({ env }) => env.map(({ name }) => name));
    const volumes = pod.volumes.map(({ name }) => name);
    assert.equal(names.includes("DATA_DIR"), volumes.includes("data"));
    return volumes.includes("data");
  };
  const database = { existingSecret: "database" };
  assert.ok(hasFolder({ secret, durability: "none" }));
  assert.ok(!hasFolder({ secret, durability: "none", database, replicas: 3 }));
});

test(
  "pods accept connections for 5 s after SIGTERM, or for as long as the values say",
  { skip },
  () => {
    const delay = (values: object): string | undefined => {
      const pod = workloadOf(render(values))?.template?.spec ?? assert.fail("no workload");
      return pod.containers[0]?.env.find(({ name }) => name === "DRAIN_DELAY_SECONDS")?.value;
    };
    assert.equal(delay({ secret }), "5");
    assert.equal(delay({ secret, drainDelaySeconds: 0 }), "0");
  },
);

test("a Job changes the tables with the secret of their owner", { skip }, () => {
  const job = (values: object): Manifest | undefined =>
    render(values).find(({ kind }) => kind === "Job");
  assert.equal(job({ secret }), undefined);
  const database = { existingSecret: "database" };
  assert.equal(job({ secret, database, storeUpgrade: { enabled: false } }), undefined);
  assert.match(JSON.stringify(job({ secret, database })), /"name":"database"/);
  const ofOwner = JSON.stringify(job(everything));
  assert.match(ofOwner, /"args":\["store","upgrade"\]/);
  assert.match(ofOwner, /"name":"owner"/);
  assert.match(ofOwner, /"helm.sh\/hook":"pre-install,pre-upgrade"/);
});

test("replicas that would each grant the whole credit are refused", { skip }, () => {
  const cannotShare = /a data folder belongs to one gateway/;
  assert.match(run({ secret, replicas: 2 }).stderr, cannotShare);
  assert.equal(run({ secret, replicas: 2, database: { existingSecret: "database" } }).stderr, "");
  assert.match(run({ secret, autoscaling: { enabled: true } }).stderr, cannotShare);
  assert.match(run({}).stderr, /secret\.existingSecret is required/);
  assert.match(run({ secret, httpRoute: { enabled: true } }).stderr, /parentRefs is required/);
});

test("values.schema.json accepts the values, and refuses misspelled ones", () => {
  assert.ok(isValues(defaults), JSON.stringify(isValues.errors));
  for (const values of Object.values(valueSets)) {
    assert.ok(isValues({ ...defaults, ...values }), JSON.stringify(isValues.errors));
  }
  assert.equal(isValues({ ...defaults, replica: 2 }), false);
  assert.equal(isValues({ ...defaults, durability: "local" }), false);
});

test("pipeline.yaml in the ConfigMap passes the check and reads the variables", { skip }, () => {
  const manifests = render({ secret, database: { existingSecret: "database" } });
  const text = manifests.find(({ kind }) => kind === "ConfigMap")?.data?.["pipeline.yaml"] ?? "";
  assert.equal(text, readFileSync(join(root, "pipeline.yaml"), "utf8"));
  const pod = workloadOf(manifests)?.template?.spec;
  const names = pod?.containers.flatMap(({ env }) => env.map(({ name }) => name)) ?? [];
  assert.ok(names.includes("GATEWAY_SECRET_FILE"));
  for (const name of names.filter((each) => each !== "SLUICE_CONFIG")) {
    assert.ok(text.includes(`\${${name.replace(/_FILE$/, "")}`), name);
  }
});

test("the PrometheusRule has the rules of deploy/grafana", { skip }, () => {
  const rule = render(everything).find(({ kind }) => kind === "PrometheusRule");
  const alerts = parse(readFileSync(join(root, "deploy/grafana/alerts.yaml"), "utf8")) as {
    groups: unknown;
  };
  assert.deepEqual(rule?.spec?.groups, alerts.groups);
});
