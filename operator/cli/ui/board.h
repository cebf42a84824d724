// What all open pages show. Pages ask often, and for the same; a source is asked once every two
// seconds at most for all of them, and only for what a page shows.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "operator/cli/ui/job_source.h"
#include "operator/cli/ui/log_window.h"

namespace lockstep::cli {

struct BoardPeriods {
  Duration look = std::chrono::seconds(2);     // while a page asks
  Duration idle = std::chrono::seconds(10);    // else: the list alone, for the curves
  Duration forget = std::chrono::seconds(10);  // what no page has asked for in this time
};

// Thread-safe. No function waits for the source, which threads ask; they return what is known.
class Board {
 public:
  static constexpr std::size_t kMostWatched = 8;  // jobs, and logs

  explicit Board(JobSource& source, const BoardPeriods& periods = {});
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Each answer is a JSON object with `error`: why the source could not be read the last time, or
  // null; what was read before is shown with it. `at` is when it was read, in milliseconds since
  // 1970, or null. Job and Log return nullopt when pages show kMostWatched others.
  std::string Jobs();
  std::optional<std::string> Job(const kube::Key& key);
  std::optional<std::string> Log(const kube::Key& key, const std::string& replica,
                                 std::uint64_t after);

 private:
  using Json = nlohmann::ordered_json;
  using LogKey = std::pair<kube::Key, std::string>;

  struct WatchedJob {
    SteadyTime asked;
    bool is_new = true;
    int looks = 0;
    std::optional<Time> at;
    std::string uid;
    Json view;  // null: none yet
    std::string error;
    std::vector<kube::Object> events;  // of the last look that read them
    std::string events_error;
    std::vector<RankMetrics> ranks;  // of the last look
  };
  struct JobCurve {
    std::string uid;
    Curve curve;
    std::optional<std::int64_t> listed_step;  // in the last list
    std::optional<Time> ended;                // nullopt: it has not
  };
  struct WatchedLog {
    explicit WatchedLog(std::uint64_t start) : window(start) {}
    SteadyTime asked;
    bool is_new = true;
    std::shared_ptr<LogTail> tail;  // used by one thread at a time
    LogWindow window;
    std::optional<Time> at;
    bool was_read = false;
    std::string error;
  };

  void LookForever(const std::stop_token& stop);
  void ReadForever(const std::stop_token& stop);
  void ReadList();
  void LookAt(const kube::Key& key);
  void ReadLog(const LogKey& key);
  bool IsAsked() const;  // requires mutex_
  void AddPoint(const ListedJob& listed, Time now);
  bool HasCurve(const ListedJob& listed) const;
  bool MayHaveCurve(const ListedJob& listed);
  JobCurve& CurveOf(const ListedJob& listed);
  Curve CurveAt(const JobLook& look, Time now);

  JobSource& source_;
  const BoardPeriods periods_;
  std::mutex mutex_;  // guards all below but the threads
  std::condition_variable_any asked_for_new_;
  SteadyTime asked_{}, listed_{};
  bool has_new_ = false, has_new_log_ = false;
  Json list_;  // null: none yet
  std::string list_error_;
  std::optional<Time> list_at_;
  std::map<kube::Key, JobCurve> curves_;
  std::map<kube::Key, WatchedJob> jobs_;
  std::map<LogKey, WatchedLog> logs_;
  std::uint64_t next_start_ = 0;  // of a window
  std::jthread looker_, reader_;  // declared last, since they use the members above
};

}  // namespace lockstep::cli
