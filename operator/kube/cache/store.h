// What an informer has seen of one kind. Thread-safe; what is kept is shared and never changes.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// A controlling owner, who is of its children's namespace. A uid alone says nothing: it is no
// secret, and anybody may write it into an object of their own.
struct Owner {
  std::string namespace_name;
  std::string kind;  // "Job.batch"
  std::string uid;
  auto operator<=>(const Owner&) const = default;
};
std::string OwnerKind(const Kind& kind);
// Without a controlling owner the uid is empty.
Owner OwnerOf(const Object& object);

// What every object is known by, whatever else is kept of it.
struct Identity {
  Key key;
  std::string uid, resource_version;
  // Of the controlling owner; empty without one. See Owner.
  std::string owner_kind, owner_name, owner_uid;
  bool being_deleted = false;
};
Identity IdentityOf(const Object& object);
// The members that it reads.
FieldMask IdentityFields();

// `Value` is what is kept of an object: as little as its readers need, since there are thousands.
template <typename Value>
struct Cached : Identity {
  Cached(Identity identity, Value kept) : Identity(std::move(identity)), value(std::move(kept)) {}
  Value value;
};

// The part of a store that does not ask what is kept.
class AnyStore {
 public:
  using Ptr = std::shared_ptr<const Identity>;

  Ptr Find(const Key& key) const;  // null if absent
  std::size_t size() const;
  // Everything of the namespace has been seen up to this version; empty before its first list.
  std::string resource_version(const std::string& namespace_name) const;
  // Empty: of all namespaces. Each namespace that is followed by itself has its own version: how
  // far one watch is says nothing about another.
  void SetResourceVersion(const std::string& namespace_name, const std::string& version);
  // Objects of this controlling owner, by name.
  std::vector<Ptr> AllOwnedBy(const Owner& owner) const;

 protected:
  ~AnyStore() = default;
  std::vector<Ptr> AllIn(const std::string& namespace_name) const;  // empty: all, by key
  // Both return what was there before; null if nothing was.
  Ptr Replace(const Ptr& object);
  Ptr Take(const Key& key);

 private:
  struct ByKey {
    using is_transparent = void;
    bool operator()(const Ptr& a, const Ptr& b) const { return a->key < b->key; }
    bool operator()(const Ptr& a, const Key& b) const { return a->key < b; }
    bool operator()(const Key& a, const Ptr& b) const { return a < b->key; }
  };
  using Objects = std::set<Ptr, ByKey>;  // the keys are in the objects alone
  // What was there before under its key; null if nothing was.
  static Ptr PutInto(Objects& objects, Ptr object);
  void UnindexLocked(const Ptr& object);

  mutable std::mutex mutex_;
  Objects objects_;
  std::map<Owner, Objects> by_owner_;
  std::map<std::string, std::string> resource_versions_;  // by namespace; "": of all
};

template <typename Value>
class Store final : public AnyStore {
 public:
  using Ptr = std::shared_ptr<const Cached<Value>>;

  Ptr Get(const Key& key) const { return Typed(Find(key)); }
  std::vector<Ptr> OwnedBy(const Owner& owner) const { return Typed(AllOwnedBy(owner)); }
  std::vector<Ptr> List(const std::string& namespace_name = "") const {  // empty: all
    return Typed(AllIn(namespace_name));
  }

  Ptr Put(const Ptr& object) { return Typed(Replace(object)); }
  Ptr Remove(const Key& key) { return Typed(Take(key)); }

 private:
  // Only Put puts anything in.
  static Ptr Typed(const AnyStore::Ptr& object) {
    return std::static_pointer_cast<const Cached<Value>>(object);
  }
  static std::vector<Ptr> Typed(const std::vector<AnyStore::Ptr>& objects) {
    std::vector<Ptr> typed;
    typed.reserve(objects.size());
    for (const AnyStore::Ptr& object : objects) typed.push_back(Typed(object));
    return typed;
  }
};

// Versions are decimal numbers of any length; true if `a` is older than `b`. Empty is the oldest.
bool IsOlderVersion(const std::string& a, const std::string& b);

}  // namespace lockstep::kube
