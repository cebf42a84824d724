#include "operator/kube/runtime/controller.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace lockstep::kube {
namespace {

using Result = absl::StatusOr<std::optional<Duration>>;

// A broken invariant in one object must not stop the others.
Result Guarded(const ReconcileFunction& reconcile, const Key& key) {
  try {
    return reconcile(key);
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

Controller::Controller(std::string name, WorkQueue& queue, ReconcileFunction reconcile)
    : name_(std::move(name)), queue_(queue), reconcile_(std::move(reconcile)) {}

Controller::~Controller() {
  Stop();
}

void Controller::Start(int workers) {
  for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { Run(); });
}

void Controller::Stop() {
  queue_.ShutDown();
  threads_.clear();  // joins
}

bool Controller::ProcessOne() {
  const std::optional<Key> key = queue_.TryGet();
  if (key) Process(*key);
  return key.has_value();
}

void Controller::Run() {
  while (const std::optional<Key> key = queue_.Get()) Process(*key);
}

void Controller::Process(const Key& key) {
  const Result result = Guarded(reconcile_, key);
  if (!result.ok()) {
    ++failures_;
    LogWarning("reconcile failed; retrying", {{"controller", name_},
                                              {"namespace", key.namespace_name},
                                              {"name", key.name},
                                              {"error", result.status().ToString()}});
    queue_.AddRateLimited(key);
  } else {
    ++successes_;
    queue_.Forget(key);
    if (*result) queue_.AddAfter(key, **result);
  }
  queue_.Done(key);
}

}  // namespace lockstep::kube
