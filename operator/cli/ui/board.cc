#include "operator/cli/ui/board.h"

#include <algorithm>
#include <utility>

#include "api/v1/conditions.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/thread_pool.h"
#include "operator/cli/text/or_null.h"
#include "operator/cli/ui/job_json.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCurves = 200;  // each has 32 KB at most
constexpr int kLooksPerEvents = 5;        // events of a whole namespace are listed for one job
// Limits the lines of a window. A page's numbers have 53 bits: there may be two million windows.
constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 32U;

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

// The times of a curve are this machine's, because the cluster's clock may be minutes off. Only the
// first point has the time of the report: the job may have ended long ago.
CurvePoint FirstPoint(const api::Progress& progress, Time now) {
  return {.time = std::min(now, progress.update_time.value_or(now)),
          .step = progress.step,
          .loss = progress.loss,
          .examples_per_second = progress.examples_per_second};
}

// Makes room where nobody has asked for long. Returns false if there is none for `key`.
template <typename Map>
bool MakeRoom(Map& watched, const typename Map::key_type& key, const BoardPeriods& periods) {
  std::erase_if(watched,
                [&](const auto& entry) { return entry.second.asked + periods.forget < Now(); });
  if (watched.contains(key) || watched.size() < Board::kMostWatched) return true;
  // A page asks once in a period for what it shows, so it no longer shows this.
  const auto oldest =
      std::ranges::min_element(watched, {}, [](const auto& entry) { return entry.second.asked; });
  if (oldest->second.asked + 2 * periods.look >= Now()) return false;
  watched.erase(oldest);
  return true;
}

// Calls `visit` for all keys at once: a silent node delays no other key.
template <typename Key, typename Visit>
void ForEachAtOnce(const std::vector<Key>& keys, const Visit& visit) {
  ThreadPool(keys.size()).VisitEach(keys.size(), keys.size(), [&](std::size_t i) {
    visit(keys[i]);
  });
}

}  // namespace

Board::Board(JobSource& source, const BoardPeriods& periods) : source_(source), periods_(periods) {
  looker_ = std::jthread([this](const std::stop_token& stop) { LookForever(stop); });
  reader_ = std::jthread([this](const std::stop_token& stop) { ReadForever(stop); });
}

std::string Board::Jobs() {
  const std::scoped_lock lock(mutex_);
  if (!IsAsked()) asked_for_new_.notify_all();
  asked_ = Now();
  Json answer = {{"source", Printable(source_.Name())},
                 {"error", OrNull(Printable(list_error_))},
                 {"at", MillisOrNull(list_at_)},
                 {"jobs", list_}};
  return AsciiJson(answer);
}

std::optional<std::string> Board::Job(const kube::Key& key) {
  const std::scoped_lock lock(mutex_);
  if (!MakeRoom(jobs_, key, periods_)) return std::nullopt;
  WatchedJob& job = jobs_[key];
  asked_ = job.asked = Now();
  if (job.is_new) {
    has_new_ = true;
    asked_for_new_.notify_all();
  }
  return AsciiJson(
      {{"error", OrNull(Printable(job.error))}, {"at", MillisOrNull(job.at)}, {"job", job.view}});
}

std::optional<std::string> Board::Log(const kube::Key& key, const std::string& replica,
                                      std::uint64_t after) {
  const std::scoped_lock lock(mutex_);
  const LogKey log_key(key, replica);
  if (!MakeRoom(logs_, log_key, periods_)) return std::nullopt;
  const auto [found, is_new] = logs_.try_emplace(log_key, next_start_);
  if (is_new) next_start_ += kMostNumbers;
  WatchedLog& log = found->second;
  asked_ = log.asked = Now();
  if (log.is_new) {
    has_new_log_ = true;
    asked_for_new_.notify_all();
  }
  Json answer = log.window.After(after);
  answer["error"] = OrNull(Printable(log.error));
  answer["at"] = MillisOrNull(log.at);
  answer["read"] = log.was_read;
  return AsciiJson(answer);
}

bool Board::IsAsked() const {
  return asked_ != SteadyTime() && asked_ + periods_.forget >= Now();
}

void Board::LookForever(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const SteadyTime begin = Now();
    std::vector<kube::Key> due;
    bool all = false;
    {
      const std::scoped_lock lock(mutex_);
      has_new_ = false;
      all = begin >= listed_ + periods_.look;
      std::erase_if(jobs_,
                    [&](const auto& job) { return job.second.asked + periods_.forget < begin; });
      for (auto& [key, job] : jobs_) {
        if (std::exchange(job.is_new, false) || all) due.push_back(key);
      }
      if (all) listed_ = begin;
    }
    if (all) ReadList();
    ForEachAtOnce(due, [this](const kube::Key& key) { LookAt(key); });
    std::unique_lock lock(mutex_);
    const auto is_due = [&] { return has_new_ || (IsAsked() && Now() >= listed_ + periods_.look); };
    const SteadyTime next = listed_ + (IsAsked() ? periods_.look : periods_.idle);
    asked_for_new_.wait_until(lock, stop, next, is_due);
  }
}

void Board::ReadForever(const std::stop_token& stop) {
  SteadyTime begin{};
  while (!stop.stop_requested()) {
    std::vector<LogKey> due;
    {
      const std::scoped_lock lock(mutex_);
      has_new_log_ = false;
      const bool all = Now() >= begin + periods_.look;
      std::erase_if(logs_,
                    [&](const auto& log) { return log.second.asked + periods_.forget < Now(); });
      for (auto& [key, log] : logs_) {
        if (std::exchange(log.is_new, false) || all) due.push_back(key);
      }
      if (all) begin = Now();
    }
    ForEachAtOnce(due, [this](const LogKey& key) { ReadLog(key); });
    std::unique_lock lock(mutex_);
    asked_for_new_.wait_until(lock, stop, begin + periods_.look, [&] { return has_new_log_; });
  }
}

void Board::ReadList() {
  const absl::StatusOr<std::vector<ListedJob>> listed = source_.List();
  const Time now = std::chrono::system_clock::now();
  const std::scoped_lock lock(mutex_);
  list_error_ = listed.ok() ? "" : std::string(listed.status().message());
  if (!listed.ok()) return;
  list_at_ = now;
  Json list = Json::array();
  std::map<kube::Key, JobCurve> curves;
  for (const ListedJob& job : *listed) {
    list.push_back(ListedJson(job));
    const auto curve = curves_.find(job.key);
    if (curve != curves_.end()) curves.insert(std::move(*curve));
  }
  MakePrintable(list);
  list_ = std::move(list);
  curves_ = std::move(curves);  // without those of jobs that are gone
  for (const ListedJob& job : *listed) AddPoint(job, now);
}

void Board::AddPoint(const ListedJob& listed, Time now) {
  const std::optional<api::Progress>& progress = listed.job.status.progress;
  if (!progress || !MayHaveCurve(listed)) return;
  JobCurve& job = CurveOf(listed);
  Curve& curve = job.curve;
  const std::optional<std::int64_t> before = std::exchange(job.listed_step, progress->step);
  if (api::IsTerminal(listed.job.status)) job.ended = job.ended.value_or(now);
  if (before == progress->step) return;
  // The ranks' numbers are newer than the status, unless the job went back to a checkpoint. Ranks
  // that answer report that themselves.
  const auto watched = jobs_.find(listed.key);
  const bool answers =
      watched != jobs_.end() && watched->second.error.empty() && !watched->second.ranks.empty();
  const bool is_back = before && progress->step < *before && !answers;
  if (!curve.points().empty() && progress->step <= curve.points().back().step && !is_back) return;
  if (curve.points().empty()) return curve.Add(FirstPoint(*progress, now));
  curve.Add({.time = now,
             .step = progress->step,
             .loss = progress->loss,
             .examples_per_second = progress->examples_per_second});
}

bool Board::HasCurve(const ListedJob& listed) const {
  const auto found = curves_.find(listed.key);
  return found != curves_.end() && found->second.uid == listed.job.metadata.uid;
}

// The curve of a job that has ended before is one point, which takes no place; and those that have
// ended since make room for jobs that run.
bool Board::MayHaveCurve(const ListedJob& listed) {
  if (HasCurve(listed)) return true;
  if (api::IsTerminal(listed.job.status)) return false;
  if (curves_.contains(listed.key) || curves_.size() < kMostCurves) return true;
  const auto first = std::ranges::min_element(
      curves_, {}, [](const auto& curve) { return curve.second.ended.value_or(Time::max()); });
  if (!first->second.ended) return false;
  curves_.erase(first);
  return true;
}

// A job that was deleted and recreated gets a new curve.
Board::JobCurve& Board::CurveOf(const ListedJob& listed) {
  JobCurve& found = curves_[listed.key];
  if (found.uid != listed.job.metadata.uid) found = {listed.job.metadata.uid, Curve(), {}, {}};
  return found;
}

// Returns the job's curve up to this look.
Curve Board::CurveAt(const JobLook& look, Time now) {
  if (look.curve) return *look.curve;
  const api::TrainingJobStatus& status = look.listed.job.status;
  if (api::IsTerminal(status) && !HasCurve(look.listed)) {
    Curve curve;
    if (status.progress) curve.Add(FirstPoint(*status.progress, now));
    return curve;
  }
  Curve& curve = CurveOf(look.listed).curve;
  if (!look.seen.ranks.empty()) {  // newer than the status
    const JobTop& top = look.seen.top;
    curve.Add({.time = now,
               .step = static_cast<std::int64_t>(top.step),
               .loss = top.loss,
               .examples_per_second = top.examples_per_second});
  }
  return curve;
}

void Board::LookAt(const kube::Key& key) {
  bool with_events = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = jobs_.find(key);
    if (found == jobs_.end()) return;
    with_events = found->second.looks++ % kLooksPerEvents == 0;
  }
  absl::StatusOr<JobLook> look = source_.Look(key, with_events);
  const Time now = std::chrono::system_clock::now();
  const std::scoped_lock lock(mutex_);
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  WatchedJob& job = found->second;
  job.error = look.ok() ? "" : std::string(look.status().message());
  if (!look.ok()) {
    job.looks = 0;  // events may be missing
    return;
  }
  job.at = now;
  if (job.uid != look->listed.job.metadata.uid) {  // recreated
    job.uid = look->listed.job.metadata.uid;
    job.ranks.clear();
    job.events.clear();
    job.events_error.clear();
    if (!with_events) job.looks = 0;
  }
  if (with_events || !look->facts.events.empty()) {
    job.events = look->facts.events;
    job.events_error = look->facts.events_error;
  } else {
    look->facts.events = job.events;
    look->facts.events_error = job.events_error;
  }
  look->seen.top.times = TimesBetween(job.ranks, look->seen.ranks);
  job.ranks = look->seen.ranks;
  job.view = LookJson(*look, CurveAt(*look, now));
}

void Board::ReadLog(const LogKey& key) {
  std::shared_ptr<LogTail> tail;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = logs_.find(key);
    if (found == logs_.end()) return;
    tail = found->second.tail;
  }
  if (!tail) tail = source_.Tail(key.first, key.second);
  std::vector<LogLine> lines;
  const absl::Status read = tail->Read(lines);
  const std::scoped_lock lock(mutex_);
  const auto found = logs_.find(key);
  if (found == logs_.end()) return;
  WatchedLog& log = found->second;
  log.tail = std::move(tail);
  log.window.Add(std::move(lines));
  log.was_read = true;
  if (read.ok()) log.at = std::chrono::system_clock::now();
  log.error = read.ok() ? "" : std::string(read.message());
}

}  // namespace lockstep::cli
