{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name (default "sluice" .Values.nameOverride) | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sluice.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "sluice.name" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "sluice.configMap" -}}
{{ default (include "sluice.name" .) .Values.existingConfigMap }}
{{- end }}

{{- /* The text of pipeline.yaml. Empty if the chart does not write the ConfigMap. */}}
{{- define "sluice.pipeline" -}}
{{- if not .Values.existingConfigMap }}{{ .Values.pipeline | default (.Files.Get "files/pipeline.yaml") }}{{ end }}
{{- end }}

{{- /* Refuses values with which the gateways would not work, or would lose accounts and credit. */}}
{{- define "sluice.validate" -}}
{{- if eq .Values.durability "volume" }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.database.existingSecret) }}{{ fail "durability: volume has one replica without a database, because a data folder belongs to one gateway" }}{{ end }}
{{- if .Values.autoscaling.enabled }}{{ fail "autoscaling needs durability: none, because a data folder belongs to one gateway" }}{{ end }}
{{- else if not .Values.database.existingSecret }}{{ fail "durability: none needs database.existingSecret, because keys and charges would be lost with the pod" }}
{{- end }}
{{- if not (or .Values.pipeline .Values.existingConfigMap .Values.variables .Values.env .Values.envFrom) }}{{ fail "the gateway has no backend: set variables.LEDGER_RPC_URL, variables.CONFIDENTIAL_CLASSIC_URL or your own pipeline" }}{{ end }}
{{- if and .Values.tls.existingSecret (not .Values.pipeline) (not .Values.existingConfigMap) }}{{ fail "tls.existingSecret needs your own pipeline with server.tls" }}{{ end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.scrapers) }}{{ fail "metrics.serviceMonitor needs networkPolicy.scrapers: the peers of Prometheus, which may reach the admin port" }}{{ end }}
{{- end }}

{{- /* Variables that the user sets, for every container that reads pipeline.yaml. */}}
{{- define "sluice.userEnv" -}}
{{- range $name, $value := .Values.variables }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.env" -}}
- { name: SLUICE_CONFIG, value: /etc/sluice/pipeline.yaml }
- { name: GATEWAY_ENV, value: {{ .Values.environment | quote }} }
- { name: GATEWAY_SECRET_FILE, value: /run/secrets/sluice/gateway-secret }
- { name: HOST, value: 0.0.0.0 }
- { name: DRAIN_DELAY_SECONDS, value: {{ .Values.drainDelaySeconds | quote }} }
- { name: ADMIN_HOST, value: 0.0.0.0 } # scrapers and `kubectl port-forward`; the NetworkPolicy decides who reaches it
{{- if eq .Values.durability "volume" }}
- { name: DATA_DIR, value: /data }
{{- end }}
- { name: LOG_LEVEL, value: {{ .Values.logLevel | quote }} }
{{- if .Values.database.existingSecret }}
- { name: DATABASE_URL_FILE, value: /run/secrets/sluice/database-url }
- name: REPLICA_NAME # the name of the gateway in the database
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
{{- end }}
{{- if .Values.redis.existingSecret }}
- { name: REDIS_URL_FILE, value: /run/secrets/sluice/redis-url }
{{- end }}
{{- include "sluice.userEnv" . }}
{{- end }}

{{- define "sluice.mounts" -}}
- { name: config, mountPath: /etc/sluice, readOnly: true } # a folder, so that a change is reloaded
- { name: secrets, mountPath: /run/secrets/sluice, readOnly: true }
{{- if eq .Values.durability "volume" }}
- { name: data, mountPath: /data }
{{- end }}
{{- if .Values.tls.existingSecret }}
- { name: tls, mountPath: /run/secrets/tls, readOnly: true } # a folder, so that a renewed certificate is used
{{- end }}
- { name: tmp, mountPath: /tmp }
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.probe" -}}
httpGet: { path: {{ .path }}, port: http, scheme: {{ if .root.Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }} }
{{- end }}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "sluice.podTemplate" -}}
metadata:
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Changes with the sections that a running gateway cannot reload, so that the pods are replaced.
    sluice/restart: {{ pick (fromYaml (include "sluice.pipeline" .)) "environment" "server" "admin" "store" "metering" "log" "secret" "fastify" | toJson | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sluice.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "sluice.podSecurity" . | nindent 4 }}
  {{- if .Values.checkBeforeStart }}
  initContainers:
    - name: check
      image: {{ include "sluice.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [check]
      env:
        {{- include "sluice.env" . | nindent 8 }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "sluice.containerSecurity" . | nindent 8 }}
      volumeMounts:
        {{- include "sluice.mounts" . | nindent 8 }}
  {{- end }}
  containers:
    - name: gateway
      image: {{ include "sluice.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        {{- include "sluice.env" . | nindent 8 }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - { name: http, containerPort: 8080 }
        - { name: admin, containerPort: 9090 }
      startupProbe:
        {{- include "sluice.probe" (dict "root" . "path" "/healthz") | nindent 8 }}
        periodSeconds: 1
        failureThreshold: 60
      livenessProbe:
        {{- include "sluice.probe" (dict "root" . "path" "/healthz") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- include "sluice.probe" (dict "root" . "path" "/readyz") | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "sluice.containerSecurity" . | nindent 8 }}
      volumeMounts:
        {{- include "sluice.mounts" . | nindent 8 }}
  volumes:
    - name: config
      configMap: { name: {{ include "sluice.configMap" . }} }
    - name: secrets
      projected:
        sources:
          - secret:
              name: {{ required "secret.existingSecret is required: the name of a Secret with a long random text" .Values.secret.existingSecret }}
              items: [{ key: {{ .Values.secret.key | quote }}, path: gateway-secret }]
          {{- if .Values.database.existingSecret }}
          - secret:
              name: {{ .Values.database.existingSecret }}
              items: [{ key: {{ .Values.database.key | quote }}, path: database-url }]
          {{- end }}
          {{- if .Values.redis.existingSecret }}
          - secret:
              name: {{ .Values.redis.existingSecret }}
              items: [{ key: {{ .Values.redis.key | quote }}, path: redis-url }]
          {{- end }}
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret: { secretName: {{ . }} }
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpread.enabled }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: {{ .Values.topologySpread.topologyKey }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluice.selector" . | nindent 10 }}
  {{- end }}
{{- end }}
