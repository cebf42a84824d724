#include "operator/health/list_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "operator/kube/denial.h"

namespace lockstep::health {
namespace {

constexpr Duration kAfterRefusal = std::chrono::seconds(10);
constexpr Duration kElse = std::chrono::minutes(5);
constexpr int kMostErrors = 3;  // before the first answer; then the server refuses nothing

}  // namespace

ListAccess::ListAccess(kube::Client& client, const std::vector<Followed>& followed)
    : client_(client) {
  for (const auto& [kind, namespace_name] : followed) {
    auto it = std::ranges::find(asked_, kind, &Asked::kind);
    if (it == asked_.end()) it = asked_.insert(it, Asked{.kind = kind});
    it->namespaces.push_back(namespace_name);
  }
}

void ListAccess::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const Duration pause = Ask(stop);
    stopped.wait_for(lock, stop, pause, [] { return false; });
  }
}

Duration ListAccess::Ask(const std::stop_token& stop) {
  Duration pause = kElse;
  for (Asked& asked : asked_) {
    const std::optional<absl::Status> found = AskFor(asked, stop);
    if (stop.stop_requested()) return pause;
    if (!found || !found->ok()) pause = kAfterRefusal;
    const std::lock_guard lock(mutex_);
    if (found) {
      asked.found = found;
    } else if (!asked.found && ++asked.errors == kMostErrors) {
      asked.found = absl::OkStatus();
    }
  }
  return pause;
}

std::optional<absl::Status> ListAccess::AskFor(const Asked& asked, const std::stop_token& stop) {
  const kube::FieldMask keep = {"metadata.name"};
  std::string refused;
  for (const std::string& namespace_name : asked.namespaces) {
    if (stop.stop_requested()) return std::nullopt;
    // Without the label selector: the server would look for an object that has the label.
    const absl::Status answer =
        client_.List(asked.kind, {.namespace_name = namespace_name, .limit = 1, .keep = &keep})
            .status();
    if (answer.ok()) return answer;
    if (!kube::IsDenial(answer)) return std::nullopt;
    refused += fmt::format("{}{}{}{}: {}", refused.empty() ? "" : "; ", asked.kind.plural,
                           namespace_name.empty() ? "" : " in ", namespace_name,
                           std::string(answer.message()));
  }
  return absl::UnavailableError(refused);
}

absl::Status ListAccess::Check() const {
  const std::lock_guard lock(mutex_);
  std::string missing;
  for (const Asked& asked : asked_) {
    if (asked.found && asked.found->ok()) continue;
    missing += missing.empty() ? "" : "; ";
    missing += asked.found ? std::string(asked.found->message())
                           : fmt::format("{}: no answer yet", asked.kind.plural);
  }
  return missing.empty() ? absl::OkStatus() : absl::UnavailableError(missing);
}

}  // namespace lockstep::health
