// Keeps a Store equal to what the API server has of one kind, and tells of each change.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/base/log.h"
#include "operator/kube/reflector.h"
#include "operator/kube/store.h"

namespace lockstep::kube {

// What can be asked of an informer whatever it keeps.
class AnyInformer {
 public:
  virtual ~AnyInformer() = default;
  virtual void Start() = 0;
  virtual void Stop() = 0;  // idempotent; after it, no handler is called
  // True once the first list is in the store and the handler has been told of it.
  virtual bool HasSynced() const = 0;
  virtual bool WaitForSync() = 0;  // blocks; false if stopped before
  virtual const Kind& kind() const = 0;
  virtual std::size_t size() const = 0;  // of the store
};

template <typename Value>
class Informer final : public AnyInformer, private ReflectorSink {
 public:
  // What is kept of an object. One that it throws at is passed over, with an error in the log.
  using Reader = std::function<Value(Object object)>;
  // Called on the informer's thread, after the store has changed. `before` is null for an object
  // that was not there, `after` for one that is gone; one that was deleted and made again unseen
  // goes before it comes.
  using OnChange = std::function<void(const Cached<Value>* before, const Cached<Value>* after)>;

  // The client outlives it.
  Informer(Client& client, Kind kind, ReflectorOptions options, Reader reader)
      : reader_(std::move(reader)),
        reflector_(client, std::move(kind), std::move(options), *this) {}

  // Before Start.
  void SetHandler(OnChange on_change) { on_change_ = std::move(on_change); }
  void Start() override { reflector_.Start(); }
  void Stop() override { reflector_.Stop(); }
  bool HasSynced() const override { return reflector_.HasSynced(); }
  bool WaitForSync() override { return reflector_.WaitForSync(); }
  const Kind& kind() const override { return reflector_.kind(); }
  std::size_t size() const override { return store_.size(); }
  const Store<Value>& store() const { return store_; }

 private:
  using Ptr = typename Store<Value>::Ptr;

  void OnListBegin() override { listed_.clear(); }

  void OnPage(std::vector<Object> items) override {
    for (Object& item : items) {
      if (Ptr read = Read(std::move(item))) listed_.push_back(std::move(read));
    }
  }

  void OnListEnd(const std::string& version) override {
    std::set<Key> keys;
    for (const Ptr& object : listed_) keys.insert(object->key);
    for (const Ptr& known : store_.List()) {
      if (!keys.contains(known->key)) Erase(known->key);
    }
    for (const Ptr& object : std::exchange(listed_, {})) Upsert(object);
    // The version comes last: a store that claims a version has all that is in it.
    store_.SetResourceVersion(version);
  }

  void OnEvent(WatchEvent event, const std::string& version) override {
    switch (event.type) {
      case WatchEvent::Type::kBookmark:
        break;
      case WatchEvent::Type::kDeleted:
        Erase(KeyOf(event.object));
        break;
      case WatchEvent::Type::kAdded:
      case WatchEvent::Type::kModified:
        if (const Ptr read = Read(std::move(event.object))) Upsert(read);
        break;
    }
    store_.SetResourceVersion(version);
  }

  std::string Version() const override { return store_.resource_version(); }

  // Null if the reader throws: a broken invariant while one object is read must not stop the
  // others.
  Ptr Read(Object object) const {
    Identity identity = IdentityOf(object);
    try {
      Value value = reader_(std::move(object));
      return std::make_shared<const Cached<Value>>(std::move(identity), std::move(value));
    } catch (const std::exception& error) {
      LogError("an object cannot be read; it is passed over",
               {{"kind", kind().kind},
                {"namespace", identity.key.namespace_name},
                {"name", identity.key.name},
                {"error", error.what()}});
      return nullptr;
    }
  }

  void Upsert(const Ptr& object) {
    const Ptr before = store_.Put(object);
    if (before && before->uid != object->uid) {
      Tell(before.get(), nullptr);
      Tell(nullptr, object.get());
    } else if (!before || before->resource_version != object->resource_version) {
      Tell(before.get(), object.get());
    }
  }

  void Erase(const Key& key) {
    if (const Ptr before = store_.Remove(key)) Tell(before.get(), nullptr);
  }

  void Tell(const Cached<Value>* before, const Cached<Value>* after) const {
    if (on_change_) on_change_(before, after);
  }

  const Reader reader_;
  OnChange on_change_;
  Store<Value> store_;
  std::vector<Ptr> listed_;  // by a list under way
  Reflector reflector_;      // last: its thread uses all of the above
};

// Keeps objects whole.
inline Object WholeObject(Object object) {
  return object;
}

}  // namespace lockstep::kube
