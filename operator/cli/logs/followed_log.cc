#include "operator/cli/logs/followed_log.h"

#include <thread>
#include <utility>

#include "base/status.h"
#include "operator/cli/cluster/pod_state.h"

namespace lockstep::cli {
namespace {

constexpr int kMostReadings = 30;  // that fail in a row

}  // namespace

FollowedLog::FollowedLog(kube::RestClient& client, PodContainer container, int restarts,
                         kube::PodLogOptions log, Duration pause,
                         std::function<void(std::string_view)> pass)
    : client_(client),
      container_(std::move(container)),
      log_(std::move(log)),
      pause_(pause),
      lines_(std::move(pass), /*redraws=*/true),
      restarts_(restarts) {
  log_.container = container_.name;
  log_.timestamps = true;  // by which lines that were read before are known
}

absl::Status FollowedLog::Read(int restarts) {
  absl::Status read;
  for (int failures = 0;;) {  // in a row
    read = ReadPart(restarts);
    failures = read.ok() ? 0 : failures + 1;
    if (!log_.follow || failures == kMostReadings || !MayGoOn(read, restarts)) break;
    std::this_thread::sleep_for(pause_);
  }
  lines_.End();
  return read;
}

// If the API server has lost the connection to the kubelet, a log that is followed ends like any
// other. So the state of the container decides. The kubelet may report a container's end late; its
// log, or that of the next one, is then read again.
bool FollowedLog::MayGoOn(const absl::Status& read, int& restarts) {
  if (!read.ok() && !absl::IsUnavailable(read)) return false;
  const absl::StatusOr<kube::Object> pod = client_.Get(kube::kPodKind, container_.pod);
  if (absl::IsNotFound(pod.status())) return false;
  if (!pod.ok()) return true;  // it is taken to run
  if (kube::Uid(*pod) != container_.uid) return false;
  restarts = RestartsOf(*pod, container_.name);
  // After a failure, there may be more of a log that has ended.
  return !read.ok() || restarts != restarts_ || IsRunning(*pod, container_.name);
}

absl::Status FollowedLog::ReadPart(int restarts) {
  if (restarts != restarts_) {
    kube::PodLogOptions rest = log_;
    rest.follow = false;
    rest.previous = true;
    const absl::Status read = ReadBehindLastLine(rest);
    if (absl::IsUnavailable(read)) return read;  // else the kubelet does not have it any more
    lines_.End();
    restarts_ = restarts;
    log_.tail_lines.reset();
    log_.since.reset();
  }
  return ReadBehindLastLine(log_);
}

absl::Status FollowedLog::ReadBehindLastLine(kube::PodLogOptions log) {
  lines_.Resume();
  if (lines_.latest()) {
    log.since_time = lines_.latest();
    log.since.reset();
    log.tail_lines.reset();
  }
  return client_.ReadPodLog(container_.pod, log, {},
                            [this](const std::string& text) { lines_.Add(text); });
}

}  // namespace lockstep::cli
