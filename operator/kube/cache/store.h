// The objects of one kind that an informer has seen. Thread-safe; cached objects are shared and
// immutable.
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

// A controlling owner, which is in the namespace of its children. A uid alone proves nothing: it is
// no secret, and anybody can write it into their own object.
struct Owner {
  std::string namespace_name;
  std::string kind;  // "Job.batch"
  std::string uid;
  auto operator<=>(const Owner&) const = default;
};
std::string OwnerKind(const Kind& kind);
// The kind and the uid are empty if IdentityOf reads no owner.
Owner OwnerOf(const Object& object);

// What identifies an object, whatever else is cached.
struct Identity {
  Key key;
  std::string uid, resource_version;
  // The controlling owner, see Owner; all empty if there is none. A reference with a kind of over
  // 512 bytes, or a name or uid of over 253, counts as none: whoever creates the object chooses
  // it.
  std::string owner_kind, owner_name, owner_uid;
  bool being_deleted = false;
};
Identity IdentityOf(const Object& object);
// Returns the members that IdentityOf reads.
FieldMask IdentityFields();

// `Value` should hold as little as its readers need: there are thousands of objects.
template <typename Value>
struct Cached : Identity {
  Cached(Identity identity, Value kept) : Identity(std::move(identity)), value(std::move(kept)) {}
  Value value;
};

// The part of a store that does not depend on the value type.
class AnyStore {
 public:
  using Ptr = std::shared_ptr<const Identity>;

  Ptr Find(const Key& key) const;  // null if absent
  std::size_t size() const;
  // Returns the version up to which everything in the namespace has been seen; empty before its
  // first list.
  std::string resource_version(const std::string& namespace_name) const;
  // Sets the version of a namespace, or of all namespaces if the name is empty. Each namespace that
  // is watched separately has its own version: watches progress independently.
  void SetResourceVersion(const std::string& namespace_name, const std::string& version);
  // Returns the objects of this controlling owner, by name.
  std::vector<Ptr> AllOwnedBy(const Owner& owner) const;

 protected:
  ~AnyStore() = default;
  // By key; an empty name stands for all namespaces.
  std::vector<Ptr> AllIn(const std::string& namespace_name) const;
  // Replace and Take return the previous object, or null if there was none.
  Ptr Replace(const Ptr& object);
  Ptr Take(const Key& key);

 private:
  struct ByKey {
    using is_transparent = void;
    bool operator()(const Ptr& a, const Ptr& b) const { return a->key < b->key; }
    bool operator()(const Ptr& a, const Key& b) const { return a->key < b; }
    bool operator()(const Key& a, const Ptr& b) const { return a < b->key; }
  };
  using Objects = std::set<Ptr, ByKey>;  // the key is part of the object
  // Returns the object previously under this key, or null if there was none.
  static Ptr PutInto(Objects& objects, Ptr object);
  void UnindexLocked(const Ptr& object);

  mutable std::mutex mutex_;
  Objects objects_;
  std::map<Owner, Objects> by_owner_;
  std::map<std::string, std::string> resource_versions_;  // by namespace; "": all namespaces
};

template <typename Value>
class Store final : public AnyStore {
 public:
  using Ptr = std::shared_ptr<const Cached<Value>>;

  Ptr Get(const Key& key) const { return Typed(Find(key)); }
  std::vector<Ptr> OwnedBy(const Owner& owner) const { return Typed(AllOwnedBy(owner)); }
  std::vector<Ptr> List(const std::string& namespace_name = "") const {  // empty: all namespaces
    return Typed(AllIn(namespace_name));
  }

  Ptr Put(const Ptr& object) { return Typed(Replace(object)); }
  Ptr Remove(const Key& key) { return Typed(Take(key)); }

 private:
  // Safe because only Put adds objects.
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

// Versions are decimal numbers of any length. True if `a` is older than `b`; empty is the oldest.
bool IsOlderVersion(const std::string& a, const std::string& b);

}  // namespace lockstep::kube
