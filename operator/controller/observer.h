// Combines the caches, the clock and the trainers' reports into the rules' input.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/collaborators.h"
#include "operator/controller/memory/job_memory.h"
#include "operator/controller/state/settings.h"
#include "operator/controller/state/stores.h"

namespace lockstep::controller {

// Thread-safe for different jobs. The constructor's arguments must outlive it.
class Observer {
 public:
  Observer(const Collaborators& with, const Stores& stores, const Settings& settings)
      : with_(with), stores_(stores), settings_(settings) {}
  // Fills context.observed, and records in context.memory what is seen for the first time.
  void Observe(ReconcileContext& context) const;

 private:
  // What the store of nodes tells about a pod's node. Unknown: it was not ready, or not there, but
  // the store may be behind. Outage: it is not ready, and nor are most (NodeHealth::IsWideOutage).
  enum class NodeState { kWell, kSilent, kUnknown, kOutage };
  static void ObserveMemory(ReconcileContext& context);
  void ObserveSights(ReconcileContext& context) const;
  static void ObserveWait(ReconcileContext& context);
  static void ObserveComplete(ReconcileContext& context);
  void ObserveGroupSize(ReconcileContext& context) const;
  void ObserveReports(ReconcileContext& context) const;
  // Since when reports are expected from a program that has so far reported only to an earlier
  // process of the operator; nullopt: none are expected.
  std::optional<SteadyTime> AwaitedSince(ReconcileContext& context) const;
  void ObserveKueue(ReconcileContext& context) const;
  static void ObserveTrainingEnd(ReconcileContext& context);
  NodeState NodeStateOf(const std::string& node, SteadyTime now, bool is_current,
                        Sight& sight) const;
  std::optional<api::Progress> LatestProgress(const ReconcileContext& context) const;
  int PortOf(const ReconcileContext& context, const ObservedPod& pod) const;

  const Collaborators& with_;
  const Stores& stores_;
  const Settings& settings_;
};

}  // namespace lockstep::controller
