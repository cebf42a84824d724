#include "operator/kube/cache/reflector.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/stream_end.h"

namespace lockstep::kube {
namespace {

constexpr int kMostTriesOfAPage = 10;                     // after these, the list begins again
constexpr Duration kLongestIdle = std::chrono::hours(1);  // no watch takes so long

}  // namespace

Reflector::Reflector(Client& client, Kind kind, ReflectorOptions options, ReflectorSink& sink)
    : client_(client),
      kind_(std::move(kind)),
      options_(std::move(options)),
      sink_(sink),
      limit_(options_.page_size) {}

Reflector::~Reflector() {
  Stop();
}

void Reflector::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

void Reflector::RequestStop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  thread_.request_stop();
}

void Reflector::Stop() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

bool Reflector::WaitForSync() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return synced_ || stopped_; });
  return synced_;
}

absl::Status Reflector::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

bool Reflector::IsCurrent(Duration limit) const {
  return synced_ && std::chrono::steady_clock::now() - heard_.load() <= limit;
}

void Reflector::Run(std::stop_token stop) {
  std::mt19937 random{std::random_device{}()};
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  int failures = 0;
  bool was_listing = false;
  while (!stop.stop_requested()) {
    const bool listing = must_list_;
    saw_event_ = false;
    was_idle_ = false;
    const absl::Status status = listing ? ListAll(stop) : WatchOnce(stop);
    if (stop.stop_requested()) return;
    if (status.ok()) failures = 0;
    NoteEnd(status);
    const bool is_first_watch = !listing && was_listing;
    was_listing = listing;
    if (status.ok() && (listing || saw_event_)) continue;
    // The server no longer has our version: list everything again.
    if (absl::IsOutOfRange(status)) must_list_ = true;
    if (absl::IsOutOfRange(status) && is_first_watch) {
      LogWarning("a list took so long that its version cannot be watched any more",
                 {{"kind", kind_.kind}, {"namespace", options_.namespace_name}});
    }
    if (!status.ok() && !absl::IsOutOfRange(status)) LogFailure(status, listing);
    // A load balancer cuts each idle watch. Ever longer delays would be gaps between the watches.
    if (!status.ok()) failures = saw_event_ || was_idle_ ? 1 : failures + 1;
    // A watch that ends without an event is normal, but must not cause a busy loop.
    const Duration delay = BackoffDelay(options_.backoff, failures, uniform(random));
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, delay, [] { return false; });
  }
}

void Reflector::NoteEnd(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  last_error_ = status;
}

void Reflector::LogFailure(const absl::Status& status, bool listing) const {
  LogWarning("informer failed; retrying",
             {{"kind", kind_.kind},
              {"namespace", options_.namespace_name},
              {"call", listing ? "list" : "watch"},
              {"error", status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
}

absl::Status Reflector::ListAll(const std::stop_token& stop) {
  if (!listing_) {
    sink_.OnListBegin();
    listing_ = Listing();
    // A large page takes the memory of all others, and the objects may have grown since.
    limit_ = std::min(limit_, options_.page_size);
  }
  do {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    absl::StatusOr<Page> page =
        client_.List(kind_, {.namespace_name = options_.namespace_name,
                             .label_selector = options_.label_selector,
                             .limit = limit_,
                             .continue_token = listing_->continue_token,
                             .keep = options_.keep ? &*options_.keep : nullptr});
    if (!page.ok()) {
      NoteFailedPage(page.status());
      return page.status();
    }
    listing_->failures = 0;
    if (page->next_limit > 0) {
      limit_ = std::min(page->next_limit, std::max(options_.page_size, options_.largest_page));
    }
    // The version of the first page counts: see Client::List.
    if (listing_->version.empty()) listing_->version = std::move(page->resource_version);
    listing_->continue_token = std::move(page->continue_token);
    sink_.OnPage(std::move(page->items));
  } while (!listing_->continue_token.empty());
  // Set before the sink hears of the list: who learns of a change by it may at once ask
  // IsCurrent().
  heard_ = std::chrono::steady_clock::now();
  sink_.OnListEnd(listing_->version);
  listing_.reset();
  must_list_ = false;
  if (synced_) return absl::OkStatus();
  {
    const std::lock_guard lock(mutex_);
    synced_ = true;
  }
  wake_.notify_all();
  sink_.OnSynced();
  return absl::OkStatus();
}

void Reflector::NoteFailedPage(const absl::Status& status) {
  // The server may not manage this many objects in time.
  if (absl::IsDeadlineExceeded(status)) limit_ = std::max(1, limit_ / 2);
  const bool may_pass = absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status) ||
                        absl::IsResourceExhausted(status);
  if (!may_pass || ++listing_->failures == kMostTriesOfAPage) listing_.reset();
}

absl::Status Reflector::WatchOnce(std::stop_token stop) {
  const WatchOptions watch{.namespace_name = options_.namespace_name,
                           .label_selector = options_.label_selector,
                           .resource_version = sink_.Version(),
                           .keep = options_.keep ? &*options_.keep : nullptr,
                           .timeout = WatchTimeout()};
  const SteadyTime begin = std::chrono::steady_clock::now();
  const absl::Status ended = client_.Watch(kind_, watch, std::move(stop),
                                           [this](WatchEvent event) { OnEvent(std::move(event)); });
  const SteadyTime end = std::chrono::steady_clock::now();
  const Duration idle = end - std::max(begin, heard_.load());
  if (ended.ok()) {
    heard_ = end;
    idle_limit_ = std::min<Duration>(2 * idle_limit_, kLongestIdle);
  } else if (HasBegun(ended) && !absl::IsOutOfRange(ended) && idle >= options_.brief_watch) {
    was_idle_ = true;
    const Duration asked = watch.timeout == Duration::zero() ? idle : watch.timeout;
    idle_limit_ = std::max<Duration>(std::min(idle, asked) / 2, options_.brief_watch);
  }
  return ended;
}

Duration Reflector::WatchTimeout() const {
  if (idle_limit_ == Duration::zero()) return options_.watch_timeout;
  if (options_.watch_timeout == Duration::zero()) return idle_limit_;
  return std::min(options_.watch_timeout, idle_limit_);
}

void Reflector::OnEvent(WatchEvent event) {
  heard_ = std::chrono::steady_clock::now();
  if (!saw_event_) NoteEnd(absl::OkStatus());  // an earlier watch's error is over
  const std::string version = ResourceVersion(event.object);
  // Versions of one watch only grow; one that is not newer is a duplicate (etcd #15271).
  if (!IsOlderVersion(sink_.Version(), version)) return;
  saw_event_ = true;
  sink_.OnEvent(std::move(event), version);
}

}  // namespace lockstep::kube
