{{- define "sluicegate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluicegate.labels" -}}
{{ include "sluicegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "sluicegate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sluicegate.configMap" -}}
{{- default (include "sluicegate.fullname" .) .Values.existingConfigMap -}}
{{- end -}}

{{- /* The keys of the Secret, as JSON. */ -}}
{{- define "sluicegate.secretKeys" -}}
{{- with .Values.secret -}}
{{- if .create -}}
{{- $keys := keys .files -}}
{{- if .adminToken }}{{ $keys = append $keys "admin-token" }}{{ end -}}
{{- if .tokenKey }}{{ $keys = append $keys "token-key" }}{{ end -}}
{{- if .storeUrl }}{{ $keys = append $keys "store-url" }}{{ end -}}
{{- toJson $keys -}}
{{- else -}}
{{- toJson .keys -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The name of the Secret; empty if there is none. */ -}}
{{- define "sluicegate.secretName" -}}
{{- if not .Values.secret.create -}}
{{- .Values.secret.name -}}
{{- else if include "sluicegate.secretKeys" . | fromJsonArray -}}
{{- include "sluicegate.fullname" . -}}
{{- end -}}
{{- end -}}
