// The way from one operator process to its API server, and what goes wrong on it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/kube/client.h"

namespace lockstep::testing {

// At the n-th write (from 1) of the process.
struct WriteFault {
  enum class Kind {
    kKillBefore,  // the process dies with the write unsent
    kKillAfter,   // it dies with the write done and its answer unread
    kLostAnswer,  // the write is done, the answer is lost
    kRefused,     // not done: `refusal`
  };
  Kind kind = Kind::kKillBefore;
  int nth = 1;
  int times = 1;  // as many writes in a row; deaths come once
  absl::Status refusal;
};

// A fault of the watches of one kind, at the n-th event (from 1) that would be delivered.
struct WatchFault {
  enum class Kind {
    kEnds,      // the stream ends well before it
    kBreaks,    // the connection breaks before it
    kGone,      // 410 before it
    kAway,      // nothing passes for a while, in which more may happen unseen; then 410
    kLate,      // it and all later ones come some milliseconds late
    kGoesBack,  // everything seen so far is delivered again, in order, then it
    kTwice,     // it is delivered twice
  };
  Kind kind = Kind::kEnds;
  std::string plural;
  int nth = 1;
};

// Lists are not made stale: without a version asked for, an API server reads them from etcd.
struct Faults {
  std::optional<WriteFault> write;
  std::optional<WatchFault> watch;
  absl::Status first_lists, first_watches;  // what each kind's first is answered, if not Ok
};

// Thread-safe. Dead, it answers nothing more; a new process has a new one.
class FaultClient final : public kube::Client {
 public:
  struct Write {
    std::string verb, kind, name;
  };

  // The store outlives it.
  FaultClient(kube::Client& store, Faults faults);

  // The process is gone, as by SIGKILL.
  void Kill();
  bool dead() const { return dead_; }
  // Whether all that it was told to do wrong has been done.
  bool struck() const;
  std::vector<Write> writes() const;  // those that were sent, whatever came of them

  absl::StatusOr<kube::Object> Get(const kube::Kind& kind, const kube::Key& key) override;
  absl::StatusOr<kube::Page> List(const kube::Kind& kind,
                                  const kube::ListOptions& options) override;
  absl::Status Watch(const kube::Kind& kind, const kube::WatchOptions& options,
                     std::stop_token stop,
                     const std::function<void(kube::WatchEvent)>& on_event) override;
  absl::StatusOr<kube::Object> Create(const kube::Kind& kind, const kube::Object& object) override;
  absl::StatusOr<kube::Object> Update(const kube::Kind& kind, const kube::Object& object) override;
  absl::StatusOr<kube::Object> UpdateStatus(const kube::Kind& kind,
                                            const kube::Object& object) override;
  absl::Status Delete(const kube::Kind& kind, const kube::Key& key,
                      const kube::Preconditions& expected) override;
  absl::Status ForceDelete(const kube::Kind& kind, const kube::Key& key,
                           const kube::Preconditions& expected) override;

 private:
  using Call = std::function<absl::StatusOr<kube::Object>()>;
  absl::StatusOr<kube::Object> Fated(Write write, const Call& call);
  absl::Status FatedDelete(const kube::Kind& kind, const kube::Key& key,
                           const std::function<absl::Status()>& call);
  // The fate of a kind's first list or watch.
  absl::Status First(const std::string& call, const kube::Kind& kind, const absl::Status& fate);
  // Events of one kind that have been delivered, over all its watches.
  struct Stream {
    int count = 0;
    std::vector<kube::WatchEvent> seen;
  };
  // What is to be delivered in place of `event`; the watch ends after that if `ends` or an error.
  absl::Status Bend(const kube::Kind& kind, const kube::WatchEvent& event,
                    std::vector<kube::WatchEvent>& deliver, bool& ends);

  kube::Client& store_;
  const Faults faults_;
  std::atomic<bool> dead_{false};
  std::stop_source death_;
  mutable std::mutex mutex_;
  // All below are guarded by mutex_.
  std::vector<Write> writes_;
  std::map<std::string, Stream> streams_;  // by plural
  std::set<std::string> asked_;
  std::set<std::string> struck_;  // the names of the calls that faults have struck
};

// Everything that happened to a kind in one store, oldest first. Writes a sentinel to know the end.
std::vector<kube::WatchEvent> HistoryOf(kube::Client& store, const kube::Kind& kind);

}  // namespace lockstep::testing
