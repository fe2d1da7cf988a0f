{{- define "fedaudit.name" -}}
{{- printf "%s-%s" .root.Release.Name .component | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "fedaudit.labels" -}}
app.kubernetes.io/name: fedaudit
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "fedaudit.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "fedaudit.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "fedaudit.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "fedaudit.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "fedaudit.podSecurity" . | nindent 2 }}
{{- end }}

{{- define "fedaudit.env" -}}
- name: FEDAUDIT_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secret }}, key: {{ .Values.database.key }}}}
- name: FEDAUDIT_BROKER_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.broker.secret }}, key: {{ .Values.broker.key }}}}
- {name: FEDAUDIT_DATA_DIR, value: /data}
- {name: FEDAUDIT_LOG_FORMAT, value: json}
- {name: HOME, value: /tmp}
- name: FEDAUDIT_STORAGE_URL
  value: {{ include "fedaudit.storage" . }}
{{- if .Values.sources.existingClaim }}
- {name: FEDAUDIT_SOURCES_DIR, value: /sources}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "fedaudit.storage" -}}
{{- if .Values.storage.url -}}
{{ .Values.storage.url | quote }}
{{- else if .Values.storage.existingClaim -}}
"file:///storage"
{{- else -}}
{{ fail "storage: set url (an object store) or existingClaim (ReadWriteMany): API and workers share uploaded files and models" }}
{{- end -}}
{{- end }}

{{- define "fedaudit.mounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- if and .Values.storage.existingClaim (not .Values.storage.url) }}
- {name: storage, mountPath: /storage}
{{- end }}
{{- if .Values.sources.existingClaim }}
- {name: sources, mountPath: /sources, readOnly: true}
{{- end }}
{{- end }}

{{- define "fedaudit.volumes" -}}
# Of the pod alone: a worker's health check looks for its own sign of life there.
- {name: data, emptyDir: {}}
- {name: tmp, emptyDir: {}}
{{- if and .Values.storage.existingClaim (not .Values.storage.url) }}
- {name: storage, persistentVolumeClaim: {claimName: {{ .Values.storage.existingClaim }}}}
{{- end }}
{{- if .Values.sources.existingClaim }}
- {name: sources, persistentVolumeClaim: {claimName: {{ .Values.sources.existingClaim }}, readOnly: true}}
{{- end }}
{{- end }}

{{- define "fedaudit.signingMount" -}}
- {name: signing-key, mountPath: /run/secrets/fedaudit, readOnly: true}
{{- end }}

{{- define "fedaudit.signingVolume" -}}
- name: signing-key
  secret:
    secretName: {{ .Values.signingKey.secret }}
    defaultMode: 0440
    items: [{key: {{ .Values.signingKey.key }}, path: signing-key.pem}]
{{- end }}

{{- define "fedaudit.signingEnv" -}}
- {name: FEDAUDIT_SIGNING_KEY_FILE, value: /run/secrets/fedaudit/signing-key.pem}
{{- end }}
