{{- define "hindcast.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains "hindcast" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-hindcast" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hindcast.selector" -}}
app.kubernetes.io/name: hindcast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hindcast.labels" -}}
{{ include "hindcast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "hindcast.metadata" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "hindcast.labels" . | nindent 2 }}
{{- end -}}

{{- define "hindcast.image" -}}
{{- $repository := required "image.repository: name the image that you built from deploy/Containerfile and pushed" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "hindcast.tlsSecret" -}}
{{- .Values.tls.secret | default (printf "%s-tls" (include "hindcast.name" .)) -}}
{{- end -}}

{{- define "hindcast.identitiesSecret" -}}
{{- .Values.sink.identitiesSecret | default (printf "%s-identities" (include "hindcast.name" .)) -}}
{{- end -}}

{{- /* Empty if only OIDC decides who may read. */ -}}
{{- define "hindcast.readersSecret" -}}
{{- if .Values.pages.enabled -}}
{{- if .Values.pages.readersSecret -}}
{{- .Values.pages.readersSecret -}}
{{- else if not .Values.pages.oidc.issuer -}}
{{- printf "%s-readers" (include "hindcast.name" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hindcast.serverName" -}}
{{- .Values.monitoring.serverName | default (printf "%s-sink.%s.svc" (include "hindcast.name" .) .Release.Namespace) -}}
{{- end -}}
