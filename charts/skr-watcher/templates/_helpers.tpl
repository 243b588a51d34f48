{{- define "skr-watcher.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ default .Chart.AppVersion $image.tag }}{{- end -}}
{{- end -}}

{{/* One webhook, equal to the one that Lifecycle Manager writes. */}}
{{- define "skr-watcher.webhook" -}}
name: {{ .name }}
clientConfig:
  service: {namespace: kyma-system, name: skr-webhook, path: /validate/lifecycle-manager, port: 443}
  caBundle: {{ .root.Values.caBundle | b64enc }}
rules:
  {{- range .rules }}
  - apiGroups: [{{ .group | quote }}]
    apiVersions: [{{ default "*" .version | quote }}]
    resources: [{{ .plural }}]
    operations: [{{ default "CREATE, UPDATE, DELETE" .operations }}]
    scope: {{ default "*" .scope | quote }}
  {{- end }}
{{- if .ofKyma }}
objectSelector:
  matchLabels:
    operator.kyma-project.io/watched-by: kyma
{{- else if .ofWatcher }}
objectSelector:
  matchLabels:
    app: skr-webhook
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: kyma-system
{{- else }}
objectSelector: {}
{{- end }}
failurePolicy: Ignore
matchPolicy: Equivalent
sideEffects: NoneOnDryRun
timeoutSeconds: 2
admissionReviewVersions: [v1]
{{- end -}}
