// A job that waits for Kueue, and what Kueue writes of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/state/settings.h"
#include "tests/support/builders.h"

namespace lockstep::testing {

inline const controller::Settings kKueue{.kueue = true, .parallel_calls = 1};
inline constexpr Time kNow{std::chrono::seconds(1'700'000'000)};

inline JobBuilder Queued(int workers = 2) {
  return Job("j").Workers(workers).With(
      [](api::TrainingJob& job) { job.metadata.labels["kueue.x-k8s.io/queue-name"] = "research"; });
}

inline api::Json Conditions(const std::vector<std::pair<std::string, bool>>& conditions) {
  api::Json list = api::Json::array();
  for (const auto& [type, holds] : conditions) {
    list.push_back({{"type", type},
                    {"status", holds ? "True" : "False"},
                    {"reason", type == "Evicted" ? "Preempted" : "R"},
                    {"message", "by another"}});
  }
  return list;
}

// As Kueue writes it when it admits `count` workers on flavor `gpu`.
inline api::Json AdmittedStatus(int count) {
  return {{"conditions", Conditions({{"QuotaReserved", true}, {"Admitted", true}})},
          {"admission",
           {{"clusterQueue", "cluster"},
            {"podSetAssignments",
             {{{"name", "worker"}, {"count", count}, {"flavors", {{"cpu", "gpu"}}}}}}}}};
}

}  // namespace lockstep::testing
