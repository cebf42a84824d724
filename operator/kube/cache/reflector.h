// Follows what an API server has of one kind: list in pages, watch from there, list again when the
// server has forgotten the version (410).
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "operator/kube/backoff.h"
#include "operator/kube/client.h"

namespace lockstep::kube {

// What a Reflector fills. Called on its thread alone.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  // A list: begun (again, if one could not go on), in pages, and whole at `version`. Objects may be
  // newer than that; what has changed since comes as events.
  virtual void OnListBegin() = 0;
  virtual void OnPage(std::vector<Object> items) = 0;
  virtual void OnListEnd(const std::string& version) = 0;
  // The first list has been taken in: HasSynced.
  virtual void OnSynced() = 0;
  // An event that is newer than all before, though not than each object of the list.
  virtual void OnEvent(WatchEvent event, const std::string& version) = 0;
  // Of the list and of what came since.
  virtual std::string Version() const = 0;
};

struct ReflectorOptions {
  std::string namespace_name;  // empty: all
  std::string label_selector;
  // A page is held as text and as objects at once. Servers before Kubernetes 1.33 send it in one
  // piece, which the HTTP library reads whole before it looks at the length, and a tenant's pod may
  // have 9 MB.
  int page_size = 8;
  std::optional<FieldMask> keep;  // the members that are read; nothing: all
  BackoffPolicy backoff{.initial = std::chrono::milliseconds(200)};
};

class Reflector {
 public:
  // The client and the sink outlive it.
  Reflector(Client& client, Kind kind, ReflectorOptions options, ReflectorSink& sink);
  ~Reflector();  // Stop()
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  // Tells the thread to end, and does not wait for it: a list under way runs to its answer.
  void RequestStop();
  // RequestStop(), then waits for the thread. Idempotent; after it, the sink is not called.
  void Stop();

  // True once the first list has been taken in.
  bool HasSynced() const { return synced_; }
  // Blocks; false if stopped before.
  bool WaitForSync();
  // Ok if the latest list or watch went well, or none has ended yet.
  absl::Status last_error() const;
  // True if the server has said something within this time, be it that nothing has changed, which
  // it says each minute: what is gone or changed longer than that is known.
  bool IsCurrent(Duration limit) const;

 private:
  void Run(std::stop_token stop);
  absl::Status ListAll(const std::stop_token& stop);
  void NoteFailedPage(const absl::Status& status);
  absl::Status WatchOnce(std::stop_token stop);
  void OnEvent(WatchEvent event);
  void NoteEnd(const absl::Status& status);

  Client& client_;
  const Kind kind_;
  const ReflectorOptions options_;
  ReflectorSink& sink_;
  // A list under way. It goes on where a failure has stopped it: one of very many or very large
  // objects might never end if it began again each time.
  struct Listing {
    std::string continue_token, version;
    int failures = 0;  // of one page, in a row
  };
  std::optional<Listing> listing_;  // of the thread
  int limit_;               // of the thread: objects in a page, as many as could be read lately
  bool must_list_ = true;   // of the thread
  bool saw_event_ = false;  // of the thread: the watch made headway
  std::atomic<bool> synced_{false};
  std::atomic<SteadyTime> heard_{SteadyTime()};  // a list's end or an event
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  bool stopped_ = false;     // guarded by mutex_
  absl::Status last_error_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace lockstep::kube
