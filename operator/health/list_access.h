// Finds out whether a process that does not lead would be able to.
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "operator/kube/client.h"

namespace lockstep::health {

// Asks for one object of everything that a leader follows. Otherwise a rolling upgrade would take
// the working operator away for one that is not granted, or whose cluster does not have, what it is
// configured to follow.
class ListAccess {
 public:
  struct Followed {
    kube::Kind kind;
    std::string namespace_name;  // empty: all namespaces, or a cluster-scoped kind
  };

  // The client must outlive this object.
  ListAccess(kube::Client& client, std::vector<Followed> followed);

  // Asks at once and then again, soon after a refusal and else rarely. Blocks until stopped; a
  // request under way runs to its answer.
  void Run(const std::stop_token& stop);
  // Asks for each once.
  void Ask(const std::stop_token& stop);

  // Unavailable names what the server refuses (403) or does not know (404), or says that nothing
  // has been asked yet. Other errors count as no answer: a restart or an older version would meet
  // them as well. Thread-safe.
  absl::Status Check() const;

 private:
  kube::Client& client_;
  const std::vector<Followed> followed_;
  mutable std::mutex mutex_;
  std::optional<absl::Status> found_;  // guarded by mutex_; nullopt: not asked yet
};

}  // namespace lockstep::health
