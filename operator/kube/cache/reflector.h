// Follows the API server's objects of one kind: lists them in pages, watches from there, and lists
// again when the server no longer has the version (410).
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

// Receives what a Reflector reads. Called only on the reflector's thread.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  // OnListBegin: a list begins, or begins again because it could not be continued. OnPage: one of
  // its pages. OnListEnd: the list is complete as of `version`, although some objects may be newer.
  // Later changes arrive as events.
  virtual void OnListBegin() = 0;
  virtual void OnPage(std::vector<Object> items) = 0;
  virtual void OnListEnd(const std::string& version) = 0;
  // The first list is complete: HasSynced() is true.
  virtual void OnSynced() = 0;
  // `version` is newer than that of all earlier events, but may be older than a listed object.
  virtual void OnEvent(WatchEvent event, const std::string& version) = 0;
  // Returns the version of the latest list or event.
  virtual std::string Version() const = 0;
};

struct ReflectorOptions {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  // The number of objects of the first page (page_size), and the largest number of a later page
  // (largest_page). A list must end while the server still knows the changes since its beginning,
  // little more than a minute, so pages grow while their objects are small (Page::next_limit).
  // Servers before Kubernetes 1.33 send a page in one piece, which the HTTP library reads whole
  // before it checks the length. See RestClientOptions::most_listed.
  int page_size = 8;
  int largest_page = 64;
  std::optional<FieldMask> keep;              // the members to read; nullopt: all
  Duration watch_timeout = Duration::zero();  // WatchOptions::timeout
  BackoffPolicy backoff{.initial = std::chrono::milliseconds(200)};
  // A watch that breaks after this time without an event was cut off because it was idle.
  Duration brief_watch = std::chrono::seconds(5);
};

class Reflector {
 public:
  // The client and the sink must outlive the reflector.
  Reflector(Client& client, Kind kind, ReflectorOptions options, ReflectorSink& sink);
  ~Reflector();  // calls Stop()
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  // Asks the thread to stop, without waiting for it. A list request that is in progress still waits
  // for its answer.
  void RequestStop();
  // Calls RequestStop() and waits for the thread. Idempotent. The sink is not called after it
  // returns.
  void Stop();

  // True once the first list is complete.
  bool HasSynced() const { return synced_; }
  // Blocks until HasSynced(); false if stopped first.
  bool WaitForSync();
  // Ok if the latest list or watch succeeded or has brought an event, or if none has ended yet.
  absl::Status last_error() const;
  // True if synced and, within `limit`, the server has completed a list, sent an event, or ended a
  // watch without an error, as it does when the watch's time is over. The sink then knows every
  // change that is older than `limit`. If nothing changes, the server sends nothing, not even
  // bookmarks, so `limit` should exceed `watch_timeout`.
  bool IsCurrent(Duration limit) const;

 private:
  void Run(std::stop_token stop);
  absl::Status ListAll(const std::stop_token& stop);
  void NoteFailedPage(const absl::Status& status);
  absl::Status WatchOnce(std::stop_token stop);
  Duration WatchTimeout() const;
  void OnEvent(WatchEvent event);
  void NoteEnd(const absl::Status& status);
  void LogFailure(const absl::Status& status, bool listing) const;

  Client& client_;
  const Kind kind_;
  const ReflectorOptions options_;
  ReflectorSink& sink_;
  // A list in progress. It resumes after a failure: a list of very many or very large objects might
  // never complete if it began again each time.
  struct Listing {
    std::string continue_token, version;
    int failures = 0;  // consecutive failures of one page
  };
  std::optional<Listing> listing_;  // used by the thread only
  int limit_;  // used by the thread only: page size, fitted to what this list could read
  bool must_list_ = true;   // used by the thread only
  bool saw_event_ = false;  // used by the thread only: the latest watch delivered an event
  bool was_idle_ = false;   // used by the thread only: the latest watch was cut because it was idle
  // Used by the thread only. Load balancers cut idle watches, often before the server sends its
  // first bookmark after a minute, and a cut does not show that the server is there. So after a cut
  // the next watch gets half of the time that was too long, and after each that ends in order twice
  // as much. Zero: none was cut.
  Duration idle_limit_ = Duration::zero();
  std::atomic<bool> synced_{false};
  // When the last complete list or event came, or a watch ended without an error.
  std::atomic<SteadyTime> heard_{SteadyTime()};
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  bool stopped_ = false;     // guarded by mutex_
  absl::Status last_error_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace lockstep::kube
