{{/* The name of a Service has 63 characters at most, and suffixes such as `-metrics` are appended to this name. */}}
{{- define "lifecycle-manager.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "lifecycle-manager.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "lifecycle-manager.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "lifecycle-manager.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kyma
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "lifecycle-manager.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "lifecycle-manager.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed: with create=false it names an existing one" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "lifecycle-manager.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ default .Chart.AppVersion $image.tag }}{{- end -}}
{{- end -}}

{{- define "lifecycle-manager.watcherImage" -}}
{{- if .Values.watcher.image -}}
{{- .Values.watcher.image -}}
{{- else -}}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}skr-watcher
{{- if .Values.watcher.digest -}}@{{ .Values.watcher.digest }}{{- else -}}:{{ .Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Host and port at which Watchers reach the event endpoint. */}}
{{- define "lifecycle-manager.eventAddress" -}}
{{- if .Values.events.address -}}
{{- .Values.events.address -}}
{{- else -}}
{{- printf "%s-events.%s.svc:%v" (include "lifecycle-manager.fullname" .) .Release.Namespace .Values.events.service.port -}}
{{- end -}}
{{- end -}}

{{- define "lifecycle-manager.eventHost" -}}
{{- regexReplaceAll ":[0-9]+$" (include "lifecycle-manager.eventAddress" .) "" -}}
{{- end -}}

{{/* Whether replicas share the Kymas; empty if options.leader-elect is false and the only replica has all of them. */}}
{{- define "lifecycle-manager.sharing" -}}
{{- if ne (index (.Values.options | default dict) "leader-elect" | toString) "false" -}}true{{- end -}}
{{- end -}}

{{/* Fail early where values contradict each other or the namespace is another one. */}}
{{- define "lifecycle-manager.check" -}}
{{- if ne .Release.Namespace "kcp-system" -}}
{{- fail (printf "lifecycle-manager reads its resources from kcp-system and cannot run in %s: install with --namespace kcp-system" .Release.Namespace) -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "lifecycle-manager.sharing" .)) -}}
{{- fail "several replicas need options.leader-elect: without it, each would reconcile every Kyma" -}}
{{- end -}}
{{- if and .Values.certManager.enabled (le (.Values.certManager.duration | trimSuffix "h" | int) 26280) (not (index (.Values.options | default dict) "self-signed-ca-renew-before")) -}}
{{- fail "certManager.duration has to be more than 26280h: cert-manager renews a CA after two thirds of it, and Lifecycle Manager replaces one that ends within options.self-signed-ca-renew-before (8760h)" -}}
{{- end -}}
{{- $ways := list -}}
{{- range $way := list "ingress" "gatewayApi" "istio" -}}
{{- if (get $.Values.events $way).enabled -}}{{- $ways = append $ways $way -}}{{- end -}}
{{- end -}}
{{- if and .Values.kubeconfig.existingSecret (or .Values.certManager.enabled .Values.webhooks.enabled) -}}
{{- fail "kubeconfig.existingSecret: the control plane is another cluster, which needs certManager.enabled=false and webhooks.enabled=false" -}}
{{- end -}}
{{- if and $ways (regexMatch "^(\\[.*\\]|[0-9.]+)$" (include "lifecycle-manager.eventHost" .)) -}}
{{- fail (printf "events.%s needs a DNS name in events.address, and no IP address" (first $ways)) -}}
{{- end -}}
{{- if and $ways (not .Values.events.address) -}}
{{- fail (printf "events.%s needs events.address: its host is routed to the event endpoint" (first $ways)) -}}
{{- end -}}
{{- end -}}
