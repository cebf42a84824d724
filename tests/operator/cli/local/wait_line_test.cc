#include "operator/cli/local/wait_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

using std::chrono::seconds;

RunView Training() {
  RunView view;
  view.state = "Running";
  view.desired = view.active = 2;
  view.answers = true;
  view.activity = api::Activity::kStep;
  view.progress = api::Progress();
  view.progress->step = 12;
  view.progress->total_steps = 938;
  view.quiet = seconds(17);
  return view;
}

TEST(WaitLineTest, SaysWhatTheRunWaitsFor) {
  struct Case {
    void (*change)(RunView&);
    std::string line;
  };
  const std::vector<Case> cases = {
      {[](RunView& view) { view.quiet = seconds(4); }, ""},
      {[](RunView&) {}, "step 12/938  step 13 under way for 0:15"},
      {[](RunView& view) { view.activity = api::Activity::kEvaluation; },
       "step 12/938  evaluating for 0:15"},
      {[](RunView& view) { view.activity = api::Activity::kCheckpoint; },
       "step 12/938  writing a checkpoint for 0:15"},
      {[](RunView& view) { view.activity = api::Activity::kSharingState; },
       "step 12/938  restoring or sharing the parameters for 0:15"},
      {[](RunView& view) { view.activity = api::Activity::kUnknown; },
       "step 12/938  waiting 0:15 for the trainer to report what it is doing"},
      {[](RunView& view) { view.missing = {"worker 1"}; },
       "step 12/938  waiting 0:15 for worker 1 to join again"},
      {[](RunView& view) {
         view.missing = {"chief 0", "worker 1"};
         view.progress.reset();
       },
       "waiting 0:15 for chief 0 and worker 1 to load the data and join"},
      {[](RunView& view) {
         view.missing = {"worker 0", "worker 1", "worker 2", "worker 3", "worker 4", "worker 5"};
       },
       "step 12/938  waiting 0:15 for worker 0, worker 1, worker 2, worker 3 and 2 more to join "
       "again"},
      {[](RunView& view) { view.answers = false; },
       "step 12/938  waiting 0:15 for the leading replica to answer"},
      {[](RunView& view) {
         view.active = 1;
         view.answers = false;
         view.waits = "Worker waits until Chief is ready (0 of 1)";
         view.progress.reset();
       },
       "waiting 0:15: Worker waits until Chief is ready (0 of 1)"},
      {[](RunView& view) {
         view.active = 1;
         view.answers = false;
         view.progress.reset();
       },
       "waiting 0:15 for 1 of 2 replicas to start"},
      {[](RunView& view) { view.state = "Restarting"; },
       "step 12/938  waiting 0:15 for the job's next attempt"},
  };
  for (const Case& one : cases) {
    RunView view = Training();
    one.change(view);
    EXPECT_EQ(WaitLine(view), one.line);
  }
}

TEST(WaitLineTest, ALongWaitChangesItsLineOnceAMinute) {
  RunView view = Training();
  view.quiet = seconds(59);
  EXPECT_EQ(WaitLine(view), "step 12/938  step 13 under way for 0:55");
  for (const int quiet : {120, 150, 179}) {
    view.quiet = seconds(quiet);
    EXPECT_EQ(WaitLine(view), "step 12/938  step 13 under way for 2:00") << quiet;
  }
}

}  // namespace
}  // namespace lockstep::cli
