#include "operator/cli/ui/cluster_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "operator/cli/ui/job_json.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

using kube::Object;
using lockstep::testing::FakeHttpServer;
using lockstep::testing::Job;
using ::testing::HasSubstr;

class ClusterSourceTest : public ::testing::Test {
 protected:
  ClusterSourceTest()
      : cluster_([this](const FakeHttpServer::Request& request, FakeHttpServer::Connection& to) {
          Answer(request.target, to);
        }) {
    auto access = ReachCluster({.kubeconfig = cluster_.kubeconfig()});
    EXPECT_TRUE(access.ok()) << access.status();
    access_ = *std::move(access);
    source_ = MakeClusterSource(*access_.client, "n");
  }

  void Answer(const std::string& target, FakeHttpServer::Connection& to) {
    const auto list = [](const Object& items) {
      return Object{{"metadata", {{"resourceVersion", "1"}}}, {"items", items}}.dump();
    };
    if (target.find("/trainingjobs") != std::string::npos) {
      Object job = api::TrainingJobToJson(Job("j").Namespace("n").Workers(2).Training().Build());
      job["metadata"]["uid"] = "uid-of-j";
      job["status"] = {{"state", "Running"}, {"readyReplicas", "2/2"}};
      return to.Respond(200, target.ends_with("/j") ? job.dump() : list(Object::array({job})));
    }
    if (target.find("/log?") != std::string::npos) {
      const int worker = std::stoi(target.substr(target.find("/j-worker-") + 10));
      if (is_silent_[static_cast<std::size_t>(worker)]) {
        to.AwaitClose();
        return to.Cut();
      }
      std::this_thread::sleep_for(log_takes_.load());
      if (target.find("previous=true") != std::string::npos) {
        ++previous_;
        return to.Respond(200, fmt::format("2026-05-01T12:00:{:02}.2Z out of memory", worker));
      }
      const bool again = target.find("sinceTime=") != std::string::npos;
      std::string text = fmt::format("2026-05-01T12:00:{0:02}Z line of {0}\n", worker);
      if (again) text += fmt::format("2026-05-01T12:00:{0:02}.5Z <b>later</b> of {0}\n", worker);
      if (is_unfinished_) text += fmt::format("2026-05-01T12:00:{:02}.8Z last words", worker);
      return to.Respond(200, text);
    }
    if (target.find("/events") != std::string::npos) {
      ++events_;
      return to.Respond(403, R"({"kind": "Status", "message": "no right to list events"})");
    }
    if (target.find("/proxy/metrics") != std::string::npos) return to.Respond(200, "");
    Object pods = Object::array();
    if (are_pods_hidden_) {
      return to.Respond(403, R"({"kind": "Status", "message": "no right to list pods"})");
    }
    const Object present = Object::object(), ended = {{"terminated", {{"exitCode", 139}}}};
    for (int i = 0; i < workers_; ++i) {
      Object container = {{"state", has_ended_ ? ended : Object{{"running", present}}},
                          {"restartCount", restarts_.load()}};
      if (restarts_ > 0) container["lastState"] = ended;
      pods.push_back(testing::TrainerPod("worker", i, container));
    }
    to.Respond(200, list(pods));
  }

  std::atomic<int> events_ = 0, workers_ = 2, restarts_ = 0, previous_ = 0;
  std::atomic<bool> is_unfinished_ = false, has_ended_ = false, are_pods_hidden_ = false;
  std::array<std::atomic<bool>, 32> is_silent_{};  // the workers' nodes
  std::atomic<std::chrono::milliseconds> log_takes_{};
  testing::FakeCluster cluster_;
  ClusterAccess access_;
  std::unique_ptr<JobSource> source_;
};

std::vector<std::string> TextsOf(std::vector<LogLine>& lines) {
  LogWindow window;
  window.Add(std::move(lines));
  std::vector<std::string> texts;
  const auto all = window.After(0);
  for (const auto& line : all.at("lines")) {
    texts.push_back(line[1].get<std::string>() + ": " + line[2].get<std::string>());
  }
  lines.clear();
  return texts;
}

TEST_F(ClusterSourceTest, JobsAreListedAndLookedAt) {
  const auto jobs = source_->List();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(1U, jobs->size());
  EXPECT_EQ((kube::Key{"n", "j"}), jobs->front().key);
  EXPECT_EQ("Running", jobs->front().state);
  const auto look = source_->Look({"n", "j"}, false);
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(2U, look->facts.pods.size());
  EXPECT_EQ("2/2", look->seen.top.ready);
  EXPECT_EQ(0, events_);
  // Without the right to read them, there is the rest.
  const auto with_events = source_->Look({"n", "j"}, true);
  ASSERT_TRUE(with_events.ok()) << with_events.status();
  EXPECT_THAT(with_events->facts.events_error, HasSubstr("no right to list events"));
}

TEST_F(ClusterSourceTest, WithoutTheRightToListPodsTheRestIsThere) {
  are_pods_hidden_ = true;
  const auto look = source_->Look({"n", "j"}, false);
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ("Running", look->listed.state);
  EXPECT_THAT(look->facts.pods_error, HasSubstr("no right to list pods"));
  const auto replicas = LookJson(*look, Curve()).at("replicas");
  EXPECT_TRUE(replicas.at("rows").empty());
  EXPECT_EQ(look->facts.pods_error, replicas.at("error"));
  std::vector<LogLine> lines;
  const absl::Status log = source_->Tail({"n", "j"}, "")->Read(lines);
  EXPECT_THAT(std::string(log.message()), HasSubstr("no right to list pods"));
}

TEST_F(ClusterSourceTest, LogsAreReadOnFromTheLastLine) {
  const auto all = source_->Tail({"n", "j"}, "");
  std::vector<LogLine> lines;
  ASSERT_TRUE(all->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines), ::testing::ElementsAre("worker-0: line of 0", "worker-1: line of 1"));
  ASSERT_TRUE(all->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines),
              ::testing::ElementsAre("worker-0: <b>later</b> of 0", "worker-1: <b>later</b> of 1"));
  ASSERT_TRUE(all->Read(lines).ok());
  EXPECT_TRUE(lines.empty());

  const auto one = source_->Tail({"n", "j"}, "worker-1");
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines), ::testing::ElementsAre("worker-1: line of 1"));
  EXPECT_TRUE(absl::IsNotFound(source_->Tail({"n", "j"}, "worker-9")->Read(lines)));
}

TEST_F(ClusterSourceTest, WhatAContainerWroteLastIsReadThoughTheNextOneRuns) {
  const auto one = source_->Tail({"n", "j"}, "worker-1");
  std::vector<LogLine> lines;
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines), ::testing::ElementsAre("worker-1: line of 1"));
  restarts_ = 1;
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines),
              ::testing::ElementsAre("worker-1: out of memory", "worker-1: <b>later</b> of 1"));
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(1, previous_);
}

TEST_F(ClusterSourceTest, ALastLineWithoutALineFeedIsReadOnceItsContainerHasEnded) {
  is_unfinished_ = true;
  const auto one = source_->Tail({"n", "j"}, "worker-1");
  std::vector<LogLine> lines;
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines), ::testing::ElementsAre("worker-1: line of 1"));
  has_ended_ = true;
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_THAT(TextsOf(lines),
              ::testing::ElementsAre("worker-1: <b>later</b> of 1", "worker-1: last words"));
  ASSERT_TRUE(one->Read(lines).ok());
  EXPECT_TRUE(lines.empty());
}

TEST_F(ClusterSourceTest, ANodeThatDoesNotAnswerIsNoEmptyLog) {
  is_silent_[1] = true;
  std::vector<LogLine> lines;
  const absl::Status read = source_->Tail({"n", "j"}, "")->Read(lines);
  EXPECT_TRUE(absl::IsDeadlineExceeded(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr("worker-1"));
  EXPECT_THAT(TextsOf(lines), ::testing::ElementsAre("worker-0: line of 0"));
}

TEST_F(ClusterSourceTest, SilentNodesTakeTheTimeOfOneAndThatOfNoOther) {
  workers_ = 10;
  for (std::size_t i = 0; i < 9; ++i) is_silent_[i] = true;
  const auto all = source_->Tail({"n", "j"}, "");
  std::vector<LogLine> lines;
  for (int i = 0; i < 2; ++i) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(absl::IsDeadlineExceeded(all->Read(lines)));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
  EXPECT_THAT(TextsOf(lines), ::testing::Contains("worker-9: line of 9"));
}

TEST_F(ClusterSourceTest, EachLogOfASlowServerIsRead) {
  workers_ = 32;
  log_takes_ = std::chrono::milliseconds(800);
  const auto all = source_->Tail({"n", "j"}, "");
  std::set<std::string> texts;
  std::vector<LogLine> lines;
  for (int i = 0; i < 4; ++i) {
    all->Read(lines).IgnoreError();  // this machine may be slow, too
    for (const std::string& text : TextsOf(lines)) texts.insert(text);
  }
  for (int i = 0; i < workers_; ++i) {
    EXPECT_TRUE(texts.contains(fmt::format("worker-{0}: line of {0}", i))) << i;
  }
}

}  // namespace
}  // namespace lockstep::cli
