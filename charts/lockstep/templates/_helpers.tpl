{{/* The release's name, unless it says already what it is of. */}}
{{- define "lockstep.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimAll "-." -}}
{{- else if contains "lockstep" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimAll "-." -}}
{{- else -}}
{{- printf "%s-lockstep" (.Release.Name | trunc 31 | trimAll "-.") -}}
{{- end -}}
{{- end -}}

{{/* 40 characters above leave room for every suffix below the 63 of a label. */}}
{{- define "lockstep.operator" -}}
{{- printf "%s-operator" (include "lockstep.fullname" .) -}}
{{- end -}}

{{/* Not empty for names that Services and TrainingJobs may have: those of releases may start with a digit and have
     dots. */}}
{{- define "lockstep.isServiceName" -}}
{{- if regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" . -}}yes{{- end -}}
{{- end -}}

{{/* Of what `helm test` makes, perhaps in a namespace of other people. Helm deletes what has this name there, whoever
     made it, so it is one that nobody chooses; 60 characters with the "-worker-0" of a pod. */}}
{{- define "lockstep.test" -}}
{{- $fullname := include "lockstep.fullname" . -}}
{{- printf "%s-test-%s" (include "lockstep.isServiceName" $fullname | empty | ternary "lockstep" $fullname) (include "lockstep.releaseHash" .) -}}
{{- end -}}

{{/* Five characters that depend on the release and its namespace. */}}
{{- define "lockstep.releaseHash" -}}
{{- printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 5 -}}
{{- end -}}

{{/* Operators of a list of namespaces may be installed side by side under one name, each in a namespace
     of its own: the name of what is cluster-wide says whose it is. The hash tells `a-lockstep` in `team` from
     `lockstep` in `team-a`. */}}
{{- define "lockstep.kueueRole" -}}
{{- $name := printf "%s-kueue" (include "lockstep.operator" .) -}}
{{- with .Values.watchNamespaces -}}
{{- $name = printf "%s-%s-%s" $.Release.Namespace $name (include "lockstep.releaseHash" $) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* "ClusterRole" or "Role": of which kind the roles for people are, if any. */}}
{{- define "lockstep.userRoleKind" -}}
{{- if .Values.rbac.create -}}
{{- empty .Values.watchNamespaces | ternary "ClusterRole" "Role" -}}
{{- end -}}
{{- end -}}

{{- define "lockstep.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "lockstep.operator" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* "true" if the operator that this release replaces elects no leader: its successor would find the Lease free. */}}
{{- define "lockstep.runsWithoutLease" -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "lockstep.operator" .) -}}
{{- $without := false -}}
{{- range dig "spec" "template" "spec" "containers" list $live -}}
{{- $without = or $without (has "--leader-elect=false" (.args | default list)) -}}
{{- end -}}
{{- if $without }}true{{ end -}}
{{- end -}}

{{/* Where the pods of `helm test` may run: where the operator may. Affinity to other pods is left out, because
     it is about the operator's own, and so is the priority: a test must not evict anybody's pods. */}}
{{- define "lockstep.placement" -}}
{{- $placement := dict -}}
{{- range $key := list "nodeSelector" "tolerations" -}}
{{- with get $.Values $key }}{{ $_ := set $placement $key . }}{{ end -}}
{{- end -}}
{{- with (.Values.affinity | default dict).nodeAffinity -}}
{{- $_ := set $placement "affinity" (dict "nodeAffinity" .) -}}
{{- end -}}
{{- with $placement }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The pods of jobs, as peers of a NetworkPolicy. Those on their node's network have the node's address, and no
     selector finds them. */}}
{{- define "lockstep.jobPods" -}}
- namespaceSelector: {}
  podSelector:
    matchExpressions:
      - {key: training.lockstep.dev/job-name, operator: Exists}
{{- range .Values.networkPolicy.nodeCidrs }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end -}}

{{/* What finds the operator's pods. Never changes: a Deployment's selector cannot. */}}
{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "lockstep.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: lockstep
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | quote }}
{{- end -}}

{{- define "lockstep.labels" -}}
{{ include "lockstep.commonLabels" . }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* One mapping of a list of maps. A key that several maps have is in it once, with the value of the last: Flux
     and kustomize, which read what Helm has rendered, refuse a mapping that has a key twice. */}}
{{- define "lockstep.mapping" -}}
{{- $all := dict -}}
{{- range . -}}
{{- range $key, $value := . }}{{ $_ := set $all $key $value }}{{ end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* The labels of the pods of `helm test`, which must pass the same label policies as the operator's. `component` is set
     last, so that no value of podLabels makes the Deployment's or a Service's selector match them. */}}
{{- define "lockstep.testPodLabels" -}}
{{- include "lockstep.mapping" (list .Values.podLabels (include "lockstep.commonLabels" . | fromYaml) (dict "app.kubernetes.io/component" "test")) -}}
{{- end -}}

{{/* (dict "image" .Values.image "context" $) */}}
{{- define "lockstep.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .context.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The trainer's image for GPUs: beside the other one unless its values say where, so that it comes from
     the same registry. */}}
{{- define "lockstep.gpuImage" -}}
{{- $cpu := .Values.trainer.image -}}
{{- $gpu := .Values.trainer.gpuImage -}}
{{- $repository := $gpu.repository | default $cpu.repository -}}
{{- $tag := $gpu.tag | default (print ($cpu.tag | default .Chart.AppVersion) "-cuda") -}}
{{- include "lockstep.image" (dict "image" (dict "repository" $repository "tag" $tag "digest" $gpu.digest) "context" $) -}}
{{- end -}}

{{/* From which value each flag is made. Given once more, a flag would not give the operator the rights, the strategy
     and the ports that follow from its value. */}}
{{- define "lockstep.valueOfFlag" -}}
--leader-elect: leaderElection.enabled
--leader-election-name: fullnameOverride
--metrics-bind-address: metrics.enabled and metrics.port
--health-probe-bind-address: health.port
--progress-bind-address: progressReports.enabled and progressReports.port
--progress-url: progressReports.enabled and progressReports.port
--trainer-image: trainer.image
--trainer-gpu-image: trainer.gpuImage
--namespace: watchNamespaces
--gang-scheduler-name: gangScheduler
--kueue: kueue.enabled
--watch-nodes: operator.watchNodes
--poll-progress: operator.pollProgress
--job-tokens: operator.jobTokens
--token-key-secret: operator.tokenKeySecret
--network-policies: operator.networkPolicies
--scraper-namespace: operator.scraperNamespace
--settling-seconds: operator.settlingSeconds
--cluster-domain: operator.clusterDomain
--kubeflow-labels: operator.kubeflowLabels
--controller-threads: operator.controllerThreads
--kube-api-qps: operator.kubeApiQps
--kube-api-burst: operator.kubeApiBurst
--log-level: operator.logLevel
{{- end -}}

{{/* Where there is no way to serve what the values ask for, say so before anything is installed. */}}
{{- define "lockstep.checkValues" -}}
{{- if ne .Chart.Name "lockstep" -}}
{{- fail (printf "alias: found %q, expected none, and the values under `lockstep`: two operators of one release would select each other's pods, so a second one needs a release of its own" .Chart.Name) -}}
{{- end -}}
{{- $fullname := include "lockstep.fullname" . -}}
{{- $monitor := include "lockstep.renders" (dict "of" .Values.serviceMonitor "name" "serviceMonitor" "kind" "ServiceMonitor" "context" $) -}}
{{- if and (or .Values.progressReports.enabled $monitor) (not (include "lockstep.isServiceName" $fullname)) -}}
{{- fail (printf "fullnameOverride: found %q with the release's name %q, expected a name for the chart's Services: %q starts with a digit or has a dot, which their names must not" .Values.fullnameOverride .Release.Name $fullname) -}}
{{- end -}}
{{- $valueOf := include "lockstep.valueOfFlag" . | fromYaml -}}
{{- range $arg := .Values.operator.extraArgs -}}
{{- with get $valueOf (regexFind "^--[a-z-]+" .) -}}
{{- fail (printf "operator.extraArgs: found %q, expected %s instead, which the chart's other objects follow" $arg .) -}}
{{- end -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail (printf "replicas: found %d with leaderElection.enabled: false, expected 1 replica or leader election: two operators that both lead would act twice" (int .Values.replicas)) -}}
{{- end -}}
{{- range $of := list "podMonitor" "serviceMonitor" "prometheusRule" -}}
{{- if and (get $.Values $of).enabled (not $.Values.metrics.enabled) -}}
{{- fail (printf "metrics.enabled: found false with %s.enabled: true, expected true: there would be nothing to scrape" $of) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rbac.create (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name: found \"\" with serviceAccount.create: false and rbac.create: true, expected the name of an existing service account: the operator's rights would go to the account `default`, and so to every pod of the namespace that names none" -}}
{{- end -}}
{{- if and .Values.progressReports.enabled (not .Values.operator.jobTokens) -}}
{{- fail "operator.jobTokens: found false with progressReports.enabled: true, expected true: reports are authenticated by the tokens" -}}
{{- end -}}
{{- $taken := dict -}}
{{- range $of := list "metrics" "health" "progressReports" -}}
{{- $values := get $.Values $of -}}
{{- if or (eq $of "health") $values.enabled -}}
{{- $port := toString (int $values.port) -}}
{{- with get $taken $port -}}
{{- fail (printf "%s.port: found %s, which is %s.port as well, expected another one" $of $port .) -}}
{{- end -}}
{{- $_ := set $taken $port $of -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" if an object of the Prometheus operator is to be rendered: (dict "of" .Values.podMonitor
     "name" "podMonitor" "kind" "PodMonitor" "context" $) */}}
{{- define "lockstep.renders" -}}
{{- $there := .context.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
{{- if and .of.enabled (eq .of.renderMode "failIfMissing") (not $there) -}}
{{- fail (printf "%s.enabled: found true, but the cluster has no %s of monitoring.coreos.com/v1. Install the Prometheus operator's CRDs first, or set %s.renderMode to skipIfMissing or alwaysRender" .name .kind .name) -}}
{{- end -}}
{{- if and .of.enabled (or $there (eq .of.renderMode "alwaysRender")) -}}true{{- end -}}
{{- end -}}

{{/* "true" if the operator watches nodes, which are cluster-wide. */}}
{{- define "lockstep.watchesNodes" -}}
{{- if and .Values.operator.watchNodes (not .Values.watchNamespaces) -}}true{{- end -}}
{{- end -}}

{{/* A role's rules: in a ClusterRole, or in a Role of each namespace that is served. */}}
{{- define "lockstep.rules" -}}
- apiGroups: [training.lockstep.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch, delete] # delete: ttlSecondsAfterFinished
- apiGroups: [training.lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create]
{{- if .Values.operator.jobTokens }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create] # of a job's token
{{- end }}
{{- if .Values.operator.networkPolicies }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, update]
{{- if .Values.kueue.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [update]
- apiGroups: [training.lockstep.dev] # to begin and end a job's suspension
  resources: [trainingjobs]
  verbs: [update]
{{- end }}
{{- if .Values.gangScheduler }}
- apiGroups: [{{ eq .Values.gangScheduler "volcano" | ternary "scheduling.volcano.sh" "scheduling.x-k8s.io" }}]
  resources: [podgroups]
  verbs: [get, list, watch, create, update, delete]
{{- end }}
{{- end -}}

{{- define "lockstep.subjects" -}}
- kind: ServiceAccount
  name: {{ include "lockstep.serviceAccount" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}
