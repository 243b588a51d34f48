{{/* The name of a Service has 63 characters at most, and suffixes such as `-metrics` are appended to this name. */}}
{{- define "module-manager.fullname" -}}
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

{{- define "module-manager.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "module-manager.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "module-manager.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kyma
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "module-manager.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "module-manager.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed: with create=false it names an existing one" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "module-manager.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ default .Chart.AppVersion $image.tag }}{{- end -}}
{{- end -}}

{{- define "module-manager.namespace" -}}
{{- .Values.namespace | default (printf "module-%s" (required "module is needed: the name of the module" .Values.module)) }}
{{- end }}

{{- define "module-manager.leaseNamespace" -}}
{{- .Values.leaderElection.namespace | default (printf "module-manager-%s-leases" .Values.module) }}
{{- end }}
