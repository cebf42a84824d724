// The names that operator, trainer and users agree on: labels, environment, ports, exit codes.
// This file is the one list of them.
#pragma once

#include <string_view>

namespace lockstep::api {

inline constexpr char kGroup[] = "training.lockstep.dev";
inline constexpr char kVersion[] = "v1";
inline constexpr char kApiVersion[] = "training.lockstep.dev/v1";
inline constexpr char kKind[] = "TrainingJob";
inline constexpr char kPlural[] = "trainingjobs";

// Labels of every object made for a job.
inline constexpr char kLabelJobName[] = "training.lockstep.dev/job-name";
inline constexpr char kLabelJobUid[] = "training.lockstep.dev/job-uid";
inline constexpr char kLabelRole[] = "training.lockstep.dev/role";
inline constexpr char kLabelReplicaIndex[] = "training.lockstep.dev/replica-index";
inline constexpr char kLabelAttempt[] = "training.lockstep.dev/attempt";
// Annotations of pods: what they were made from, so that a later edit of the job can be told.
inline constexpr char kAnnotationClusterShape[] = "training.lockstep.dev/cluster-shape";
inline constexpr char kAnnotationSpecHash[] = "training.lockstep.dev/spec-hash";

// And which container decides its outcome.
inline constexpr char kAnnotationMainContainer[] = "training.lockstep.dev/main-container";
// And the Secret that its job's token was mounted from.
inline constexpr char kAnnotationTokenSecret[] = "training.lockstep.dev/token-secret";
// And the NetworkPolicy that was made before the pods of its attempt.
inline constexpr char kAnnotationNetworkPolicy[] = "training.lockstep.dev/network-policy";
// And the operator's trainer image that a pod of the bundled trainer was created with, which all
// pods of an attempt share. Empty where the job names its own image.
inline constexpr char kAnnotationTrainerImage[] = "training.lockstep.dev/trainer-image";
// Of a Workload: its roles' pod templates.
inline constexpr char kAnnotationTemplates[] = "training.lockstep.dev/templates";

// Environment of every non-init container.
inline constexpr char kEnvTfConfig[] = "TF_CONFIG";
inline constexpr char kEnvJob[] = "LOCKSTEP_JOB";
inline constexpr char kEnvNamespace[] = "LOCKSTEP_NAMESPACE";
inline constexpr char kEnvRole[] = "LOCKSTEP_ROLE";
inline constexpr char kEnvIndex[] = "LOCKSTEP_INDEX";
inline constexpr char kEnvAttempt[] = "LOCKSTEP_ATTEMPT";
// What only the bundled trainer reads: set with `training`.
inline constexpr char kEnvConfig[] = "LOCKSTEP_CONFIG";      // `training` as JSON
inline constexpr char kEnvStrategy[] = "LOCKSTEP_STRATEGY";  // `strategy` as JSON
inline constexpr char kEnvJobUid[] = "LOCKSTEP_JOB_UID";
inline constexpr char kEnvProcessesPerPod[] = "LOCKSTEP_PROCESSES_PER_POD";
// restartScope: only InPlace lets a supervisor start a replica again by itself.
inline constexpr char kEnvRestartScope[] = "LOCKSTEP_RESTART_SCOPE";
// The file that holds the job's token (job_token.h). Absent: whoever reaches the rendezvous is
// believed.
inline constexpr char kEnvTokenFile[] = "LOCKSTEP_TOKEN_FILE";
// The pod's terminationGracePeriodSeconds, where it is not Kubernetes' default of 30.
inline constexpr char kEnvGraceSeconds[] = "LOCKSTEP_GRACE_SECONDS";
// The pod's own address; where the supervisor binds its servers. Absent: all addresses.
inline constexpr char kEnvPodIp[] = "LOCKSTEP_POD_IP";

// The file for the container's termination message, where it is not kTerminationMessagePath.
inline constexpr char kEnvTerminationMessagePath[] = "LOCKSTEP_TERMINATION_MESSAGE_PATH";
inline constexpr char kTerminationMessagePath[] = "/dev/termination-log";  // Kubernetes' default

// Ports.
inline constexpr int kClusterPort = 2222;  // rendezvous and TrainerStatus; TF_CONFIG's addresses
inline constexpr int kMetricsPort = 8080;  // the supervisor's /metrics
inline constexpr std::string_view kClusterPortNames[] = {"tfjob-port", "cluster"};

// Containers whose exit decides the pod's outcome, in order of preference; else the first
// container. The first three names also say what the program reads of its environment.
inline constexpr char kTensorFlowContainer[] = "tensorflow";
inline constexpr char kPyTorchContainer[] = "pytorch";
inline constexpr char kJaxContainer[] = "jax";
inline constexpr char kTrainerContainer[] = "trainer";
inline constexpr std::string_view kMainContainerNames[] = {kTensorFlowContainer, kPyTorchContainer,
                                                           kJaxContainer, kTrainerContainer};

// Exit codes of the trainer. 1-127 are permanent, 128 and above are retried (TFJob's rule).
inline constexpr int kExitDone = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadConfig = 10;
inline constexpr int kExitBadData = 11;
inline constexpr int kExitStorage = 12;  // the final checkpoint could not be written
inline constexpr int kExitDiverged = 20;
inline constexpr int kExitPreempted = 200;  // after a checkpoint
inline constexpr int kExitPeerLost = 210;
inline constexpr int kExitRendezvousDeadline = 211;

// True if a process that ended with this code is worth starting again.
bool IsRetryableExitCode(int exit_code);

}  // namespace lockstep::api
