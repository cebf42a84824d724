// The log of a pod's container, over lost connections and restarts of the container.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/cli/logs/resumed_log.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

struct PodContainer {
  kube::Key pod;
  std::string uid;  // the pod's
  std::string name;
};

// Not thread-safe.
class FollowedLog {
 public:
  // `log` says what to read of the present container, which has been restarted `restarts` times,
  // and whether to follow it. The lines of a container that starts later are all read. `pass` gets
  // each line once, as from a ResumedLog with redraws. It waits for `pause` before it reads again.
  FollowedLog(kube::RestClient& client, PodContainer container, int restarts,
              kube::PodLogOptions log, Duration pause, std::function<void(std::string_view)> pass);

  // Blocks until the container has ended or its pod is gone; without `follow`, until the end of
  // what there is. Another call goes on behind the last line: for a container that was started
  // again, `restarts` times by now. Errors: those of ReadPodLog; Unavailable only after many
  // readings in a row.
  absl::Status Read(int restarts);

  // The restarts before the container whose log was read last.
  int restarts() const { return restarts_; }

 private:
  // Reads the log of the present container and, if that was started since, of the one before it.
  absl::Status ReadPart(int restarts);
  // Returns whether there may be more to read, and sets how often the container has restarted.
  bool MayGoOn(const absl::Status& read, int& restarts);
  absl::Status ReadBehindLastLine(kube::PodLogOptions log);

  kube::RestClient& client_;
  const PodContainer container_;
  kube::PodLogOptions log_;
  const Duration pause_;
  ResumedLog lines_;
  int restarts_;
};

}  // namespace lockstep::cli
