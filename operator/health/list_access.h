// Finds out whether a process that does not lead would be able to.
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/kube/client.h"

namespace lockstep::health {

// Asks for one object of each kind that a leader follows. Otherwise a rolling upgrade would take
// the working operator away for one that is not granted, or whose cluster does not have, what it is
// configured to follow. One namespace that may be listed is enough: the present leader may have
// lost the others as well, and the next one serves those that are left.
class ListAccess {
 public:
  struct Followed {
    kube::Kind kind;
    std::string namespace_name;  // empty: all namespaces, or a cluster-scoped kind
  };

  // The client must outlive this object.
  ListAccess(kube::Client& client, const std::vector<Followed>& followed);

  // Asks at once and then again and again. Blocks until stopped; a request under way runs to its
  // answer.
  void Run(const std::stop_token& stop);
  // Asks for each kind once, in one namespace after the other until one may be listed. Returns how
  // long to wait before the next time: briefly after a refusal or an error, else long.
  Duration Ask(const std::stop_token& stop);

  // Unavailable names what the server refuses (403) or does not know (404), or what has had no
  // answer yet. Other errors leave what was known. Where nothing was, several in a row count as no
  // refusal: a restart or an older version would meet them as well. Thread-safe.
  absl::Status Check() const;

 private:
  struct Asked {
    kube::Kind kind;
    std::vector<std::string> namespaces;
    // Guarded by mutex_.
    std::optional<absl::Status> found;  // nullopt: not known yet
    int errors = 0;                     // before the first answer
  };

  // Returns Ok, or Unavailable with what is refused, or nullopt if the server answers neither.
  std::optional<absl::Status> AskFor(const Asked& asked, const std::stop_token& stop);

  kube::Client& client_;
  std::vector<Asked> asked_;
  mutable std::mutex mutex_;
};

}  // namespace lockstep::health
