// The rest of lists that are read in pages: all pages of a list show the same instant. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>

#include "operator/kube/client.h"
#include "operator/local/watch_history.h"

namespace lockstep::local {

class ListSnapshots {
 public:
  struct Snapshot {
    std::uint64_t version = 0;
    std::deque<StoredObject> rest;
  };

  // Returns the first objects of the snapshot, up to `limit`, or all if it is 0 or less. Keeps the
  // rest under the page's continue token. Of many kept lists the oldest expires.
  kube::Page TakePage(Snapshot snapshot, int limit);
  // Returns the page after the one that had this token. A token can be used once; nullopt if it was
  // used or has expired.
  std::optional<kube::Page> NextPage(const std::string& token, int limit);

 private:
  struct Kept {
    std::string token;
    Snapshot snapshot;
  };
  std::list<Kept> kept_;  // oldest first
  std::uint64_t last_token_ = 0;
};

}  // namespace lockstep::local
