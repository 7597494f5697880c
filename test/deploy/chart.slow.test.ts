/** The chart in deploy/chart, rendered by a stand-in for Helm (chart/render.go). No cluster is used. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute";
import { PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";
import { Ajv } from "ajv";
import { Deployment } from "kubernetes-models/apps/v1/Deployment";
import { StatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import { Job } from "kubernetes-models/batch/v1/Job";
import { Ingress } from "kubernetes-models/networking.k8s.io/v1/Ingress";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import { ConfigMap } from "kubernetes-models/v1/ConfigMap";
import { Service } from "kubernetes-models/v1/Service";
import { ServiceAccount } from "kubernetes-models/v1/ServiceAccount";
import { parse } from "yaml";
import {
  chart,
  podOf,
  render,
  root,
  run,
  skip,
  workloadOf,
  type Labels,
  type Manifest,
} from "./chart/render.ts";

const models = {
  ConfigMap,
  Deployment,
  HTTPRoute,
  HorizontalPodAutoscaler,
  Ingress,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  PrometheusRule,
  Service,
  ServiceAccount,
  ServiceMonitor,
  StatefulSet,
};

const schema = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")) as object;
const isValues = new Ajv({ allErrors: true, strict: false }).compile(schema);
const defaults = parse(readFileSync(join(chart, "values.yaml"), "utf8")) as object;
const secret = { existingSecret: "sluice" };
const variables = { LEDGER_RPC_URL: "https://node.example" };
const database = { existingSecret: "database" };
const everything = {
  secret,
  durability: "none",
  replicas: 2,
  database,
  storeUpgrade: { existingSecret: "owner" },
  redis: { existingSecret: "redis" },
  variables: { ...variables, PRICE_PER_TOKEN_NANO: 12 },
  env: [{ name: "LEDGER_KEY", value: "b" }],
  envFrom: [{ configMapRef: { name: "more" } }],
  image: { repository: "registry.example/sluice", digest: `sha256:${"0".repeat(64)}` },
  imagePullSecrets: [{ name: "registry" }],
  autoscaling: { enabled: true },
  pipeline: readFileSync(join(root, "pipeline.yaml"), "utf8"),
  tls: { existingSecret: "certificate" },
  extraVolumes: [{ name: "ca", configMap: { name: "ca" } }],
  extraVolumeMounts: [{ name: "ca", mountPath: "/etc/ca", readOnly: true }],
  ingress: {
    enabled: true,
    className: "nginx",
    hosts: ["api.example"],
    tls: [{ hosts: ["api.example"], secretName: "certificate" }],
    annotations: { a: "b" },
  },
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
  "the defaults": { secret, variables },
  everything,
  "as little as possible": nothing,
  "a database and a volume": { secret, variables, database },
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

function assertLabels(labels: Labels, selector: Labels | undefined): void {
  assert.ok(selector !== undefined && Object.keys(selector).length > 0);
  for (const [name, value] of Object.entries(selector)) assert.equal(labels[name], value, name);
}

test("only gateways with a volume have a data folder", { skip }, () => {
  const hasFolder = (values: object): boolean => {
    const pod = podOf(workloadOf(render({ secret, variables, ...values })));
    const names = pod.containers.flatMap(({ env }) => env.map(({ name }) => name));
    const mounts = pod.containers.flatMap((each) => each.volumeMounts.map(({ name }) => name));
    assert.equal(names.includes("DATA_DIR"), mounts.includes("data"));
    return mounts.includes("data");
  };
  assert.ok(hasFolder({}));
  assert.ok(!hasFolder({ durability: "none", database, replicas: 3 }));
});

test(
  "pods accept connections for 5 s after SIGTERM, or for as long as the values say",
  { skip },
  () => {
    const delay = (values: object): string | undefined => {
      const pod = podOf(workloadOf(render({ secret, variables, ...values })));
      return pod.containers[0]?.env.find(({ name }) => name === "DRAIN_DELAY_SECONDS")?.value;
    };
    assert.equal(delay({}), "5");
    assert.equal(delay({ drainDelaySeconds: 0 }), "0");
  },
);

test("a Job changes the tables with the secret of their owner", { skip }, () => {
  const job = (values: object): Manifest | undefined =>
    render({ secret, variables, ...values }).find(({ kind }) => kind === "Job");
  assert.equal(job({}), undefined);
  assert.equal(job({ database, storeUpgrade: { enabled: false } }), undefined);
  assert.match(JSON.stringify(job({ database })), /"name":"database"/);
  const ofOwner = JSON.stringify(job(everything));
  assert.match(ofOwner, /"args":\["store","upgrade"\]/);
  assert.match(ofOwner, /"name":"owner"/);
  assert.match(ofOwner, /"helm.sh\/hook":"pre-install,pre-upgrade"/);
  // The file of the image may need the variables and the files of the user.
  assert.match(ofOwner, /"LEDGER_RPC_URL".*"LEDGER_KEY".*"envFrom":.*"\/etc\/ca".*"configMap"/);
});

test("values that lose credit, keys or metrics, or have no backend, are refused", { skip }, () => {
  const fault = (values: object): string => run({ secret, variables, ...values }).stderr;
  const cannotShare = /a data folder belongs to one gateway/;
  assert.match(fault({ replicas: 2 }), cannotShare);
  assert.equal(fault({ replicas: 2, database }), "");
  assert.match(fault({ autoscaling: { enabled: true } }), cannotShare);
  assert.match(fault({ durability: "none" }), /none needs database\.existingSecret/);
  assert.match(fault({ secret: {} }), /secret\.existingSecret is required/);
  assert.match(fault({ httpRoute: { enabled: true } }), /parentRefs is required/);
  assert.match(fault({ ingress: { enabled: true } }), /ingress\.hosts is required/);
  assert.match(run({ secret }).stderr, /no backend: set variables\.LEDGER_RPC_URL/);
  assert.match(fault({ tls: { existingSecret: "a" } }), /needs your own pipeline/);
  const metrics = { serviceMonitor: { enabled: true } };
  assert.match(fault({ metrics }), /needs networkPolicy\.scrapers/);
  assert.equal(fault({ metrics, networkPolicy: { enabled: false } }), "");
});

test("with a certificate the probes and the Service use HTTPS", { skip }, () => {
  const pod = podOf(workloadOf(render(everything)));
  const [{ startupProbe, livenessProbe, readinessProbe } = assert.fail()] = pod.containers;
  for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
    assert.equal(probe?.httpGet.scheme, "HTTPS");
  }
});

test(
  "a change of a section that needs a restart replaces the pods, other changes do not",
  { skip },
  () => {
    const text = readFileSync(join(root, "pipeline.yaml"), "utf8");
    const sum = (pipeline: string): string | undefined =>
      workloadOf(render({ secret, variables, pipeline }))?.template?.metadata.annotations?.[
        "sluice/restart"
      ];
    assert.match(sum(text) ?? "", /^[0-9a-f]{64}$/);
    assert.equal(sum(text.replace("rps: 2", "rps: 3")), sum(text));
    assert.notEqual(sum(text.replace("drainSeconds: 30", "drainSeconds: 20")), sum(text));
    assert.notEqual(sum(text.replace("durability: settled", "durability: async")), sum(text));
  },
);

test("the autoscaler does not add gateways before one is busy", { skip }, () => {
  const scaler = render(everything).find(({ kind }) => kind === "HorizontalPodAutoscaler");
  assert.match(JSON.stringify(scaler), /"type":"AverageValue","averageValue":"700m"/);
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
  const manifests = render({ secret, variables, database });
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
