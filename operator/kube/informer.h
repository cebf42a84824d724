// Keeps a Store equal to what the API server has of one kind: list in pages, watch from there, list
// again when the server has forgotten the version (410).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "operator/kube/backoff.h"
#include "operator/kube/client.h"
#include "operator/kube/store.h"

namespace lockstep::kube {

// Called on the informer's thread, after the store has changed. Any may be empty.
struct InformerHandlers {
  std::function<void(const Object& object)> on_add;
  std::function<void(const Object& before, const Object& after)> on_update;
  std::function<void(const Object& last)> on_delete;
};

struct InformerOptions {
  std::string namespace_name;  // empty: all
  std::string label_selector;
  // A page is held as text and as objects at once, and a pod of a large job has 40 KB.
  int page_size = 100;
  FieldTree skip;                                 // members that need not be read at all
  std::function<void(Object& object)> transform;  // trims an object before it is kept; may be empty
  BackoffPolicy backoff{.initial = std::chrono::milliseconds(200)};
};

class Informer {
 public:
  // The client outlives it.
  Informer(Client& client, Kind kind, InformerOptions options);
  ~Informer();  // Stop()
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  // Handlers are set before Start.
  void SetHandlers(InformerHandlers handlers);
  void Start();
  void Stop();  // idempotent; after it, no handler is called

  // True once the first list is in the store and its handlers have been called.
  bool HasSynced() const { return synced_; }
  // Blocks; false if stopped before.
  bool WaitForSync();
  const Kind& kind() const { return kind_; }
  const Store& store() const { return store_; }

 private:
  void Run(std::stop_token stop);
  absl::Status ListAll(std::stop_token stop);
  absl::Status WatchOnce(std::stop_token stop);
  void Replace(const std::vector<ObjectPtr>& objects, const std::string& version);
  void OnEvent(WatchEvent event);
  void Upsert(const ObjectPtr& object);
  void Erase(const Key& key);
  ObjectPtr Trim(Object object) const;

  Client& client_;
  const Kind kind_;
  const InformerOptions options_;
  InformerHandlers handlers_;
  Store store_;
  bool must_list_ = true;   // of the thread
  bool saw_event_ = false;  // of the thread: the watch made headway
  std::atomic<bool> synced_{false};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool stopped_ = false;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace lockstep::kube
