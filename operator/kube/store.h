// What an informer has seen of one kind. Thread-safe; objects are shared and never change.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "operator/kube/object.h"

namespace lockstep::kube {

using ObjectPtr = std::shared_ptr<const Object>;

class Store {
 public:
  ObjectPtr Get(const Key& key) const;  // null if absent
  // Objects whose controlling owner has this uid, by name.
  std::vector<ObjectPtr> OwnedBy(const std::string& owner_uid) const;
  std::vector<ObjectPtr> List() const;
  std::size_t size() const;
  // Everything up to this version has been seen; empty before the first list.
  std::string resource_version() const;

  // Returns what was there before; null if nothing was.
  ObjectPtr Put(ObjectPtr object);
  ObjectPtr Remove(const Key& key);
  void SetResourceVersion(const std::string& version);

 private:
  void UnindexLocked(const Key& key, const Object& object);

  mutable std::mutex mutex_;
  std::map<Key, ObjectPtr> objects_;
  std::map<std::string, std::set<Key>> by_owner_;
  std::string resource_version_;
};

// Versions are decimal numbers of any length; true if `a` is older than `b`. Empty is the oldest.
bool IsOlderVersion(const std::string& a, const std::string& b);

}  // namespace lockstep::kube
