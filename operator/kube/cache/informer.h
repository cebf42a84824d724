// Keeps a Store in sync with the API server's objects of one kind, and reports each change.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "operator/kube/cache/any_informer.h"
#include "operator/kube/cache/reflector.h"
#include "operator/kube/cache/store.h"

namespace lockstep::kube {

// Each namespace has its own list and watch, which fail and recover independently.
template <typename Value>
class Informer final : public AnyInformer {
 public:
  // Extracts the cached value from an object. If it throws, the error is logged, and the store
  // keeps what it had of the object.
  using Reader = std::function<Value(Object object)>;
  // As Reader, of an object whose name is in the store, with the value `before`.
  using Updater = std::function<Value(Object object, const Value& before)>;
  // Called after the store has changed, on the thread of the object's namespace, so namespaces may
  // call concurrently. `before` is null for a new object, `after` for a deleted one. If an object
  // was recreated and the deletion was missed, reports the deletion before the addition.
  using OnChange = std::function<void(const Cached<Value>* before, const Cached<Value>* after)>;

  // Follows options.namespace_name. The client must outlive the informer.
  Informer(Client& client, Kind kind, const ReflectorOptions& options, Reader reader)
      : Informer(client, std::move(kind), {options.namespace_name}, options, std::move(reader)) {}
  // Follows these namespaces, which must be distinct; "" stands for all namespaces.
  Informer(Client& client, Kind kind, const std::vector<std::string>& namespaces,
           ReflectorOptions options, Reader reader)
      : kind_(std::move(kind)), reader_(std::move(reader)) {
    for (const std::string& name : namespaces) {
      options.namespace_name = name;
      feeds_.push_back(std::make_unique<Feed>(*this, client, options));
    }
  }

  // Requires for these: Start() has not been called.
  void SetUpdater(Updater update) { update_ = std::move(update); }
  void SetHandler(OnChange on_change) { on_change_ = std::move(on_change); }
  void SetSyncHandler(std::function<void()> on_sync) override { on_sync_ = std::move(on_sync); }
  void Start() override {
    for (const auto& feed : feeds_) feed->reflector.Start();
  }
  void RequestStop() override {
    for (const auto& feed : feeds_) feed->reflector.RequestStop();
  }
  void Stop() override {
    // Signals all first: each may be waiting for the API server, and the waits must not add up.
    RequestStop();
    for (const auto& feed : feeds_) feed->reflector.Stop();
  }
  bool HasSynced() const override {
    return std::ranges::all_of(feeds_,
                               [](const auto& feed) { return feed->reflector.HasSynced(); });
  }
  bool HasSynced(const std::string& namespace_name) const override {
    return std::ranges::any_of(feeds_, [&](const auto& feed) {
      return (feed->scope.empty() || feed->scope == namespace_name) && feed->reflector.HasSynced();
    });
  }
  bool WaitForSync() override {
    return std::ranges::all_of(feeds_,
                               [](const auto& feed) { return feed->reflector.WaitForSync(); });
  }
  std::vector<FeedState> Feeds() const override {
    std::vector<FeedState> states;
    for (const auto& feed : feeds_) {
      states.push_back({feed->scope, feed->reflector.HasSynced(), feed->reflector.last_error()});
    }
    return states;
  }
  bool IsCurrent(Duration limit) const override {
    return std::ranges::all_of(
        feeds_, [limit](const auto& feed) { return feed->reflector.IsCurrent(limit); });
  }
  const Kind& kind() const override { return kind_; }
  std::size_t size() const override { return store_.size(); }
  const Store<Value>& store() const { return store_; }

 private:
  using Ptr = typename Store<Value>::Ptr;

  // The list and watch of one namespace. Changes only that namespace's objects.
  struct Feed final : ReflectorSink {
    Feed(Informer& owner, Client& client, const ReflectorOptions& options)
        : informer(owner),
          scope(options.namespace_name),
          reflector(client, owner.kind_, options, *this) {}

    void OnListBegin() override {
      listed.clear();
      unread.clear();
    }

    void OnPage(std::vector<Object> items) override {
      for (Object& item : items) {
        Key key = KeyOf(item);
        if (Ptr read = informer.Read(std::move(item), nullptr)) {
          listed.push_back(std::move(read));
        } else {
          unread.insert(std::move(key));
        }
      }
    }

    void OnListEnd(const std::string& version) override {
      std::set<Key> keys = std::exchange(unread, {});  // they exist
      for (const Ptr& object : listed) keys.insert(object->key);
      for (const Ptr& known : informer.store_.List(scope)) {
        if (!keys.contains(known->key)) informer.Erase(known->key);
      }
      for (const Ptr& object : std::exchange(listed, {})) informer.Upsert(object);
      // The version is set last: a store must contain everything up to the version that it reports.
      informer.store_.SetResourceVersion(scope, version);
    }

    void OnSynced() override {
      if (informer.on_sync_) informer.on_sync_();
    }

    void OnEvent(WatchEvent event, const std::string& version) override {
      Apply(std::move(event), version);
      informer.store_.SetResourceVersion(scope, version);
    }

    void Apply(WatchEvent event, const std::string& version) {
      if (event.type == WatchEvent::Type::kBookmark) return;
      const auto known = informer.store_.Get(KeyOf(event.object));
      if (known && IsOlderVersion(version, known->resource_version)) return;
      switch (event.type) {
        case WatchEvent::Type::kBookmark:
          break;
        case WatchEvent::Type::kDeleted:
          informer.Erase(KeyOf(event.object));
          break;
        case WatchEvent::Type::kAdded:
        case WatchEvent::Type::kModified:
          if (const Ptr read = informer.Read(std::move(event.object), known)) informer.Upsert(read);
          break;
      }
    }

    std::string Version() const override { return informer.store_.resource_version(scope); }

    Informer& informer;
    const std::string scope;  // the namespace; empty: all
    std::vector<Ptr> listed;  // so far, by the current list
    std::set<Key> unread;     // of the current list's objects that cannot be read
    Reflector reflector;      // last: its thread uses all of the above
  };

  // Null if the reader throws: a broken invariant in one object must not stop the others.
  Ptr Read(Object object, const Ptr& before) const {
    Identity identity = IdentityOf(object);
    try {
      Value value = update_ && before ? update_(std::move(object), before->value)
                                      : reader_(std::move(object));
      return std::make_shared<const Cached<Value>>(std::move(identity), std::move(value));
    } catch (const std::exception& error) {
      LogError("an object cannot be read; it is passed over",
               {{"kind", kind_.kind},
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

  const Kind kind_;
  const Reader reader_;
  Updater update_;  // may be empty
  OnChange on_change_;
  std::function<void()> on_sync_;
  Store<Value> store_;
  std::vector<std::unique_ptr<Feed>> feeds_;  // last: their threads use all of the above
};

}  // namespace lockstep::kube
