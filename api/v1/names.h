// The names that operator, trainer and users share: labels, environment, ports, exit codes. They
// are defined only here.
#pragma once

#include <string_view>

namespace lockstep::api {

inline constexpr char kGroup[] = "training.lockstep.dev";
inline constexpr char kApiVersion[] = "training.lockstep.dev/v1";
inline constexpr char kKind[] = "TrainingJob";

// Labels: the first two are on every child of a job, the others on its pods.
inline constexpr char kLabelJobName[] = "training.lockstep.dev/job-name";
inline constexpr char kLabelJobUid[] = "training.lockstep.dev/job-uid";
inline constexpr char kLabelRole[] = "training.lockstep.dev/role";
inline constexpr char kLabelReplicaIndex[] = "training.lockstep.dev/replica-index";
inline constexpr char kLabelAttempt[] = "training.lockstep.dev/attempt";
// Pod annotations: what the pod was created from, so that a later edit of the job is detected.
inline constexpr char kAnnotationClusterShape[] = "training.lockstep.dev/cluster-shape";
// What a pod whose shape is "elastic" was told that the shape leaves out. They are notes of their
// own, since an older operator compares the shape and would restart a job that has another.
inline constexpr char kAnnotationElasticPeers[] = "training.lockstep.dev/elastic-peers";
inline constexpr char kAnnotationElasticBounds[] = "training.lockstep.dev/elastic-bounds";
inline constexpr char kAnnotationSpecHash[] = "training.lockstep.dev/spec-hash";

// The container whose exit is the pod's outcome.
inline constexpr char kAnnotationMainContainer[] = "training.lockstep.dev/main-container";
// "Always": the replica is to start again after a success, too, and the operator does that, since
// the job has rules about failures. Absent: the kubelet does what spec.restartPolicy says.
inline constexpr char kAnnotationRestartPolicy[] = "training.lockstep.dev/restart-policy";
// The Secret that the job's token was mounted from.
inline constexpr char kAnnotationTokenSecret[] = "training.lockstep.dev/token-secret";
// How the programs of the pod's attempt may report (controller::ChannelOf); absent: that Secret has
// no bearer.
inline constexpr char kAnnotationReportChannel[] = "training.lockstep.dev/report-channel";
// The NetworkPolicy that was created before the pods of its attempt.
inline constexpr char kAnnotationNetworkPolicy[] = "training.lockstep.dev/network-policy";
// The operator's trainer images, for pods without and with GPUs, when it created a pod of the
// bundled trainer; all pods of an attempt share both. Empty if the job names its own image.
inline constexpr char kAnnotationTrainerImage[] = "training.lockstep.dev/trainer-image";
inline constexpr char kAnnotationTrainerGpuImage[] = "training.lockstep.dev/trainer-gpu-image";
// Annotation of a Workload: a hash of the pod templates it was created from.
inline constexpr char kAnnotationTemplates[] = "training.lockstep.dev/templates";
// Annotation of a Workload: the fewest workers that it asked for; 0: all or none. Kueue drops
// minCount where partial admission is disabled.
inline constexpr char kAnnotationMinWorkers[] = "training.lockstep.dev/min-workers";
// Annotation of a PodGroup: the members of its spec that the operator has set, "minMember,queue".
inline constexpr char kAnnotationPodGroupMembers[] = "training.lockstep.dev/pod-group-members";

// Environment variables of a pod's containers, limited to its framework's if the main container is
// named after one. Only the main container may get TF_CONFIG.
inline constexpr char kEnvTfConfig[] = "TF_CONFIG";
inline constexpr char kEnvJob[] = "LOCKSTEP_JOB";
inline constexpr char kEnvNamespace[] = "LOCKSTEP_NAMESPACE";
inline constexpr char kEnvRole[] = "LOCKSTEP_ROLE";
inline constexpr char kEnvIndex[] = "LOCKSTEP_INDEX";
inline constexpr char kEnvAttempt[] = "LOCKSTEP_ATTEMPT";
// Variables only for the bundled trainer: set with `training`.
inline constexpr char kEnvConfig[] = "LOCKSTEP_CONFIG";      // `training` as JSON
inline constexpr char kEnvStrategy[] = "LOCKSTEP_STRATEGY";  // `strategy` as JSON
inline constexpr char kEnvJobUid[] = "LOCKSTEP_JOB_UID";
inline constexpr char kEnvProcessesPerPod[] = "LOCKSTEP_PROCESSES_PER_POD";
// How many GPUs the pod's main container asks for; absent without. Its processes train on them.
inline constexpr char kEnvGpus[] = "LOCKSTEP_GPUS";
// restartScope: only with InPlace does a supervisor restart a replica by itself.
inline constexpr char kEnvRestartScope[] = "LOCKSTEP_RESTART_SCOPE";
// The file with the job's token (job_token.h). Absent: the rendezvous accepts every caller.
inline constexpr char kEnvTokenFile[] = "LOCKSTEP_TOKEN_FILE";
// Where a program of a user's own image posts its progress, and the file with what authenticates
// it. The names are those of Kubeflow Trainer, which programs for it, such as Hugging Face's, read.
inline constexpr char kEnvProgressUrl[] = "KUBEFLOW_TRAINER_SERVER_URL";
inline constexpr char kEnvProgressToken[] = "KUBEFLOW_TRAINER_SERVER_TOKEN";
// The pod's terminationGracePeriodSeconds, if it is not Kubernetes' default of 30.
inline constexpr char kEnvGraceSeconds[] = "LOCKSTEP_GRACE_SECONDS";
// The pod's own address, where the supervisor binds its servers. Absent: all addresses.
inline constexpr char kEnvPodIp[] = "LOCKSTEP_POD_IP";

// The file for the container's termination message, if it is not kTerminationMessagePath.
inline constexpr char kEnvTerminationMessagePath[] = "LOCKSTEP_TERMINATION_MESSAGE_PATH";
inline constexpr char kTerminationMessagePath[] = "/dev/termination-log";  // Kubernetes' default

// Ports.
inline constexpr int kClusterPort = 2222;  // rendezvous and TrainerStatus; the port in TF_CONFIG
inline constexpr int kMetricsPort = 8080;  // the supervisor's /metrics
inline constexpr std::string_view kClusterPortNames[] = {"tfjob-port", "cluster"};

// Names of the main container, whose exit is the pod's outcome, in order of preference; else it is
// the first container. The first three also tell which environment variables the program reads.
inline constexpr char kTensorFlowContainer[] = "tensorflow";
inline constexpr char kPyTorchContainer[] = "pytorch";
inline constexpr char kJaxContainer[] = "jax";
inline constexpr char kTrainerContainer[] = "trainer";
inline constexpr std::string_view kMainContainerNames[] = {kTensorFlowContainer, kPyTorchContainer,
                                                           kJaxContainer, kTrainerContainer};

// Exit codes of the trainer: 1-127 are permanent, 128 and above are retried (TFJob's rule).
inline constexpr int kExitDone = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadConfig = 10;
inline constexpr int kExitBadData = 11;
inline constexpr int kExitStorage = 12;  // the final checkpoint or the export could not be written
inline constexpr int kExitDiverged = 20;
inline constexpr int kExitPreempted = 200;  // asked to stop; 210 from a leader that could not save
inline constexpr int kExitPeerLost = 210;   // or another failure that may pass
inline constexpr int kExitRendezvousDeadline = 211;
inline constexpr int kExitGpuGone = 212;  // only another pod may have it

// Returns true if a process that ended with this code is worth restarting.
bool IsRetryableExitCode(int exit_code);

// Returns true if the trainer ends with this code because of its command line, configuration or
// data.
constexpr bool IsInputFault(int exit_code) {
  return exit_code == kExitUsage || exit_code == kExitBadConfig || exit_code == kExitBadData;
}

}  // namespace lockstep::api
