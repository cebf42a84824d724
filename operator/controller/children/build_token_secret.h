// The Secret that holds a job's token, and how it gets into the job's pods. Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/replicas.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns a name that contains the job's uid, so that it differs for a later job of the same name.
// A Secret with the bearer of reports has a name of its own, since one without it, which an
// operator that took no reports has made, cannot be changed.
std::string TokenSecretName(const api::TrainingJob& job, bool has_bearer);

// Returns an immutable Secret that is garbage-collected with the job. It holds the token and, with
// `has_bearer`, the bearer of reports that is made of it.
kube::Object BuildTokenSecret(const api::TrainingJob& job, const std::string& token,
                              bool has_bearer);

// How a pod's program may report its progress.
struct Reporting {
  std::string url;      // Settings::progress_url
  std::string channel;  // ChannelOf; empty: not at all, the Secret has no bearer
};

// Mounts the Secret into the main container of a pod of the job, under a volume name that the
// template does not use, and sets the environment variable with the file's path unless the template
// does. If the template mounts something at the same path, that mount is kept, and the file is
// expected in it. Annotations record that the pod has the token, and the channel. With one,
// variables tell the program where it may report the progress of this attempt, and where its bearer
// is: that of the leading replica, and each that learns from RANK whether it is the one to report.
void MountToken(const api::TrainingJob& job, const Replica& replica, int attempt,
                const Reporting& reporting, kube::Object& pod);

}  // namespace lockstep::controller
