// Remembers which of the kubelets' restarts followed from others' losses. Deterministic, but not
// stateless.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// The latest end of a program that the kubelet starts again, as far as needed to tell it from
// others. The number of the run is counted up at some time between its end and the next start, and
// so it only helps where the kubelet does not know when the run ended.
struct EndedRun {
  explicit EndedRun(const ObservedPod& pod)
      : exit_code(pod.last_end->exit_code),
        signal(pod.last_end->signal),
        finished_at(pod.last_end->finished_at),
        number(finished_at ? 0 : pod.last_run) {}
  int exit_code, signal;
  std::optional<Time> finished_at;
  int number;
  bool operator==(const EndedRun&) const = default;
};

// A kubelet restarts a program that ended because it lost a peer, and counts this like any other
// restart. A restart is not charged if something explains it: a cause that was charged or seen
// within Settings::settling before or after it, or a missing required replica. Restarts after ends
// that nobody saw, because the node was restarted, are not charged either. Not thread-safe.
class SeenRestarts {
 public:
  // Sets the pods' excused_restarts and until_restarts_count. Excuses restarts that only an earlier
  // process saw, as many as are needed to keep the job within backoffLimit. Requires: what this
  // process has seen of pods and nodes, and last_cause, are set.
  void Annotate(Observed& observed, SteadyTime now);

 private:
  struct Seen {
    std::optional<EndedRun> end;  // the latest
    int restarts = 0;             // by the kubelet's count
    int excused = 0;
    bool is_excused = false;          // the latest end is
    std::optional<SteadyTime> since;  // when that came, while it may yet be explained
    int unexplained = 0;              // restarts since then
  };
  static void NoteEnd(const Observed& observed, const ObservedPod& pod, SteadyTime now, Seen& seen);
  static void Judge(bool is_explained, SteadyTime now, Observed& observed, Seen& seen);

  std::map<std::string, Seen> pods_;  // by uid; of the present attempt
  std::optional<SteadyTime> lacked_;  // when a required replica was last not there
};

}  // namespace lockstep::controller
