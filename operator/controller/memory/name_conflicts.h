// Objects of other owners that occupy the names of a job's children.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "operator/controller/state/stores.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// Not thread-safe.
class NameConflicts {
 public:
  // Records that `object`, which has another owner, occupies the name.
  void Add(const kube::Kind& kind, const kube::Object& object, SteadyTime now);
  // Forgets the conflicts whose names are now free or the job's own: by the caches where they hold
  // the object, else by asking the server, `at_once` at a time. Asks for a name at most once a
  // minute, and for 64 names per call: those that were asked for longest ago. Returns the error of
  // a call that failed.
  absl::Status Look(kube::Client& client, const Stores& stores, const kube::Owner& owner,
                    SteadyTime now, ThreadPool& pool, std::size_t at_once);
  std::size_t size() const { return by_name_.size(); }
  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const { return by_name_.contains(name); }

 private:
  struct Conflict {
    kube::Kind kind;
    std::string uid, version;
    bool is_cached = false;  // it has our label, so the store shows its deletion
    SteadyTime looked_at;
  };
  static bool IsSettled(const kube::Key& key, const Conflict& conflict, const kube::Owner& owner,
                        const Stores& stores);

  std::map<std::string, Conflict> by_name_;
};

}  // namespace lockstep::controller
