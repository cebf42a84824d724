#include "operator/health/list_access.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <utility>

namespace lockstep::health {
namespace {

constexpr Duration kAfterRefusal = std::chrono::seconds(10);
constexpr Duration kElse = std::chrono::minutes(5);

}  // namespace

ListAccess::ListAccess(kube::Client& client, std::vector<Followed> followed)
    : client_(client), followed_(std::move(followed)) {}

void ListAccess::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    Ask(stop);
    stopped.wait_for(lock, stop, Check().ok() ? kElse : kAfterRefusal, [] { return false; });
  }
}

void ListAccess::Ask(const std::stop_token& stop) {
  const kube::FieldMask keep = {"metadata.name"};
  std::string refused;
  for (const auto& [kind, namespace_name] : followed_) {
    if (stop.stop_requested()) return;
    // Without the label selector: the server would look for an object that has the label.
    const absl::Status answer =
        client_.List(kind, {.namespace_name = namespace_name, .limit = 1, .keep = &keep}).status();
    if (!absl::IsPermissionDenied(answer) && !absl::IsNotFound(answer)) continue;
    refused += fmt::format("{}{}{}{}: {}", refused.empty() ? "" : "; ", kind.plural,
                           namespace_name.empty() ? "" : " in ", namespace_name,
                           std::string(answer.message()));
  }
  const std::lock_guard lock(mutex_);
  found_ = refused.empty() ? absl::OkStatus() : absl::UnavailableError(refused);
}

absl::Status ListAccess::Check() const {
  const std::lock_guard lock(mutex_);
  return found_.value_or(absl::UnavailableError("not asked yet"));
}

}  // namespace lockstep::health
