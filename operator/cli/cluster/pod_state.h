// What a pod does, in words. Pure.
#pragma once

#include <string>

#include "operator/kube/object.h"

namespace lockstep::cli {

// Returns, for example, "Running", "Completed", "Failed: OOMKilled, exit code 137",
// "CrashLoopBackOff: back-off 40s …", "ImagePullBackOff: …", "Unschedulable: 0/3 nodes are
// available", "Terminating", with the cluster's own reasons and messages.
std::string PodState(const kube::Object& pod);

// The init container that keeps the main one from starting: the first one whose latest end was an
// error, or that the kubelet waits to start again; empty: there is none.
std::string InitContainerToBlame(const kube::Object& pod);

// The container whose log tells of the pod's trouble: InitContainerToBlame, else the main one.
std::string ContainerToBlame(const kube::Object& pod);

// The restarts of a container, or of the one to blame, by the kubelet.
int RestartsOf(const kube::Object& pod, const std::string& container);
int KubeletRestarts(const kube::Object& pod);

// True if the container has started, so that there is a log; with `previous`, if it has restarted.
bool HasLog(const kube::Object& pod, const std::string& container, bool previous);

// True if the container runs now.
bool IsRunning(const kube::Object& pod, const std::string& container);

// True if the container has ended, for now.
bool HasEnded(const kube::Object& pod, const std::string& container);

// True if the pod or its container to blame has ended with an error, or the kubelet waits before
// it starts the container again.
bool IsInTrouble(const kube::Object& pod);

}  // namespace lockstep::cli
