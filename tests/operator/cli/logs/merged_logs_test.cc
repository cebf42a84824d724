#include "operator/cli/logs/merged_logs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "api/v1/names.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/kube/rest/resource_path.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/operator/cli/logs/timed_line.h"
#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

using kube::Object;
using lockstep::testing::FakeHttpServer;
using lockstep::testing::Job;
using lockstep::testing::TimedLine;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Object kRunning = {{"running", {{"startedAt", "2026-05-01T12:00:00Z"}}}};
const Object kEnded = {{"terminated", {{"exitCode", 1}}}};

Object Pod(const std::string& role, int index, const Object& state, int restarts = 0) {
  Object container = {{"restartCount", restarts}, {"state", state}};
  if (restarts > 0) container["lastState"] = kEnded;
  return testing::TrainerPod(role, index, std::move(container));
}

// Whether the label selector of the request selects the pod.
bool IsAskedFor(const Object& pod, const std::string& target) {
  for (const auto& [key, value] : pod["metadata"]["labels"].items()) {
    const std::string asked = kube::PercentEncode(key + "=");
    const std::size_t place = target.find(asked);
    if (place == std::string::npos) continue;
    const std::string rest = target.substr(place + asked.size());
    if (rest.substr(0, rest.find_first_of("%&")) != value.get<std::string>()) return false;
  }
  return true;
}

// An API server with the job j, whose pods and logs a test decides.
class MergedLogsTest : public ::testing::Test {
 protected:
  MergedLogsTest()
      : cluster_([this](const FakeHttpServer::Request& request, FakeHttpServer::Connection& to) {
          Answer(request.target, to);
        }) {}

  void Answer(const std::string& target, FakeHttpServer::Connection& to) {
    const std::scoped_lock lock(mutex_);  // logs are read at the same time
    if (target.find("/trainingjobs/j") != std::string::npos) {
      auto job = api::TrainingJobToJson(Job("j").Namespace("n").Workers(2).Training().Build());
      job["metadata"]["uid"] = "uid-of-j";
      job["status"] = {{"state", ended_ ? "Succeeded" : "Running"}};
      if (ended_) {
        job["status"]["conditions"] = {{{"type", "Succeeded"}, {"status", "True"}}};
      }
      return to.Respond(200, job.dump());
    }
    for (const Object& pod : pods_) {
      if (target.ends_with("/pods/" + pod["metadata"]["name"].get<std::string>())) {
        return to.Respond(200, pod.dump());
      }
    }
    for (const auto& [pod, log] : logs_) {
      if (target.find(fmt::format("/pods/{}/log", pod)) == std::string::npos) continue;
      asked_.push_back(target);
      if (target.find("previous=true") != std::string::npos) {
        if (previous_log_.empty()) return to.Respond(400, R"({"kind": "Status"})");
        to.StartChunks();
        to.Chunk(previous_log_);
        return to.EndChunks();
      }
      to.StartChunks();
      to.Chunk(log);
      if (log_read_) return log_read_(to);
      return to.EndChunks();
    }
    if (target.find("/log") != std::string::npos) return to.Respond(404, R"({"kind": "Status"})");
    if (pods_listed_) pods_listed_();
    Object selected = Object::array();
    for (const Object& pod : pods_) {
      if (IsAskedFor(pod, target)) selected.push_back(pod);
    }
    to.Respond(
        200,
        Object{{"kind", "PodList"}, {"metadata", {{"resourceVersion", "1"}}}, {"items", selected}}
            .dump());
    if (looked_) looked_();
  }

  // Returns what is printed; status_ and errors_ hold the rest.
  std::string Print(MergedLogsOptions options) {
    options.poll_period = std::chrono::milliseconds(1);
    const auto access = ReachCluster({.kubeconfig = cluster_.kubeconfig()});
    EXPECT_TRUE(access.ok()) << access.status();
    std::FILE* out = std::tmpfile();
    ::testing::internal::CaptureStderr();
    status_ = PrintMergedLogs(*access->client, {"n", "j"}, options, out);
    errors_ = ::testing::internal::GetCapturedStderr();
    std::string text(static_cast<std::size_t>(std::ftell(out)), '\0');
    std::rewind(out);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
    std::fclose(out);
    return text;
  }

  std::mutex mutex_;  // of what follows, while logs are read
  bool ended_ = false;
  std::vector<Object> pods_;
  std::map<std::string, std::string> logs_;
  std::string previous_log_;                                   // from before a restart
  std::function<void()> pods_listed_;                          // before each list of the pods
  std::function<void()> looked_;                               // after each list of the pods
  std::vector<std::string> asked_;                             // requests for logs
  std::function<void(FakeHttpServer::Connection&)> log_read_;  // instead of the end of a log
  absl::Status status_;
  std::string errors_;
  testing::FakeCluster cluster_;
};

TEST_F(MergedLogsTest, EachLineHasItsReplicaAndItsPlaceInTime) {
  pods_ = {Pod("worker", 0, kRunning), Pod("ps", 10, kEnded)};
  logs_ = {{"j-worker-0", TimedLine(1, "one") + TimedLine(3, "three")},
           {"j-ps-10", TimedLine(2, "two")}};
  EXPECT_EQ(Print({}), "worker-0 | one\nps-10    | two\nworker-0 | three\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "");
  MergedLogsOptions servers;
  servers.role = api::Role::kParameterServer;
  servers.timestamps = true;
  EXPECT_EQ(Print(servers), "ps-10 | 2026-05-01T12:00:02.000Z two\n");
}

TEST_F(MergedLogsTest, ARedrawOfALineDoesNotPassForAnotherReplicas) {
  pods_ = {Pod("worker", 1, kEnded)};
  logs_["j-worker-1"] =
      TimedLine(1, "10 %\rworker-0 | loss nan\r") + TimedLine(2, "") + TimedLine(3, "as on DOS\r");
  EXPECT_EQ(Print({}),
            "worker-1 | 10 %\n"
            "worker-1 | worker-0 | loss nan\n"
            "worker-1 | \n"
            "worker-1 | as on DOS\n");
}

// The main one's log follows, from its beginning, once it has started.
TEST_F(MergedLogsTest, AnInitContainerThatHasFailedStandsForTheMainOne) {
  const Object waits = {{"waiting", {{"reason", "PodInitializing"}}}};
  pods_ = {Pod("worker", 0, waits)};
  pods_[0]["status"]["initContainerStatuses"] = {{{"name", "fetch"}, {"state", kEnded}}};
  logs_ = {{"j-worker-0", TimedLine(1, "access denied")}};
  int looks = 0;
  looked_ = [&] {
    if (asked_.size() == 1) {
      pods_ = {Pod("worker", 0, kEnded)};
      logs_ = {{"j-worker-0", TimedLine(2, "step 1")}};
    }
    ended_ = asked_.size() > 1 || ++looks == 1000;
  };
  MergedLogsOptions options;
  options.log.follow = true;
  options.log.tail_lines = 7;
  EXPECT_EQ(Print(options), "worker-0 | access denied\nworker-0 | step 1\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_,
            "lockstep: worker-0: the main container has not started; this is the log of the init "
            "container fetch, which has failed\n");
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_THAT(asked_[0], HasSubstr("container=fetch"));
  EXPECT_THAT(asked_[1], AllOf(HasSubstr("container=trainer"), Not(HasSubstr("tailLines"))));
}

// A progress bar may get no line feed for hours.
TEST_F(MergedLogsTest, ARedrawIsPrintedBeforeItsLineEnds) {
  pods_ = {Pod("worker", 0, kRunning)};
  logs_["j-worker-0"] = "2026-05-01T12:00:01.000000000Z 10 %\r20 %\r30";
  const std::string begun = "2026-05-01T12:00:01.000000000Z 10 %\r20 %\r";
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::string early;
  log_read_ = [&](FakeHttpServer::Connection& to) {
    pollfd printed{ends[0], POLLIN, 0};
    std::string text(begun.size(), '\0');
    while (early.size() < begun.size() && poll(&printed, 1, 20'000) == 1) {
      early += text.substr(
          0, static_cast<std::size_t>(read(ends[0], text.data(), begun.size() - early.size())));
    }
    pods_ = {Pod("worker", 0, kEnded)};
    ended_ = true;
    to.Chunk(" %\r");
    to.EndChunks();
  };
  MergedLogsOptions options;
  options.role = api::Role::kWorker;
  options.index = 0;
  options.log.follow = true;
  options.timestamps = true;
  std::FILE* out = fdopen(ends[1], "w");
  const auto access = ReachCluster({.kubeconfig = cluster_.kubeconfig()});
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_TRUE(PrintMergedLogs(*access->client, {"n", "j"}, options, out).ok());
  std::fclose(out);
  EXPECT_EQ(early, begun);
  std::string rest(100, '\0');
  rest.resize(static_cast<std::size_t>(read(ends[0], rest.data(), rest.size())));
  EXPECT_EQ(rest, "30 %\r\n");
  close(ends[0]);
}

TEST_F(MergedLogsTest, AReplicaWithoutALogIsNamed) {
  pods_ = {Pod("worker", 0, kRunning),
           Pod("worker", 1, {{"waiting", {{"reason", "ImagePullBackOff"}}}})};
  logs_ = {{"j-worker-0", TimedLine(1, "one")}};
  EXPECT_EQ(Print({}), "worker-0 | one\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "lockstep: worker-1 has no log: ImagePullBackOff\n");
}

TEST_F(MergedLogsTest, ALogThatCannotBeReadIsNamedAndTheOthersArePrinted) {
  pods_ = {Pod("worker", 0, kRunning), Pod("worker", 1, kRunning)};
  logs_ = {{"j-worker-0", TimedLine(1, "one")}};
  EXPECT_EQ(Print({}), "worker-0 | one\n");
  EXPECT_FALSE(status_.ok());
  EXPECT_THAT(errors_, HasSubstr("lockstep: worker-1: "));
}

// RLIMIT_NPROC does not bind root, so threads get stacks that no address space has room for.
TEST_F(MergedLogsTest, AReplicaThatGetsNoThreadIsNamed) {
  pods_ = {Pod("worker", 0, kRunning), Pod("worker", 1, kRunning)};
  logs_ = {{"j-worker-0", TimedLine(1, "one")}, {"j-worker-1", TimedLine(2, "two")}};
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 60U), 0);
  pods_listed_ = [&huge] { EXPECT_EQ(pthread_setattr_default_np(&huge), 0); };
  EXPECT_EQ(Print({}), "");
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status_)) << status_;
  EXPECT_THAT(errors_, AllOf(HasSubstr("lockstep: worker-0: no thread can be started"),
                             HasSubstr("lockstep: worker-1: no thread can be started")));
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
}

TEST_F(MergedLogsTest, WithoutPodsTheStateOfTheJobIsTold) {
  EXPECT_EQ(Print({}), "");
  EXPECT_TRUE(absl::IsNotFound(status_)) << status_;
  EXPECT_THAT(std::string(status_.message()), HasSubstr("the job is Running"));
}

TEST_F(MergedLogsTest, WhatStartsLaterIsFollowedUntilTheJobHasEnded) {
  pods_ = {Pod("worker", 0, kRunning)};
  logs_ = {{"j-worker-0", TimedLine(1, "one")}};
  int looks = 0;
  looked_ = [&] {
    ++looks;
    if (looks == 1) logs_["j-worker-1"] = TimedLine(3, "late");
    const auto is_asked_for = [this](const std::string& pod) {
      return std::ranges::any_of(asked_,
                                 [&](const auto& asked) { return asked.find(pod) != asked.npos; });
    };
    if (looks >= 2 && is_asked_for("j-worker-0")) {
      pods_ = {Pod("worker", 0, kEnded, 1), Pod("worker", 1, kEnded)};
      logs_["j-worker-0"] = TimedLine(4, "restarted");
      ended_ = true;
    }
  };
  MergedLogsOptions options;
  options.log.follow = true;
  options.log.tail_lines = 7;
  const std::string text = Print(options);
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "");
  EXPECT_THAT(text, HasSubstr("worker-1 | late\n"));
  EXPECT_THAT(text, HasSubstr("worker-0 | one\n"));
  EXPECT_THAT(text, HasSubstr("worker-0 | restarted\n"));
  EXPECT_GE(asked_.size(), 3u);
  EXPECT_THAT(asked_, ::testing::Contains(HasSubstr("tailLines=7")).Times(1))
      << "logs that begin later are read whole";
}

// As if the API server had lost its kubelet: first the log just ends, then the connection does.
TEST_F(MergedLogsTest, AFollowedLogGoesOnWhileItsContainerRuns) {
  pods_ = {Pod("worker", 0, kRunning)};
  ended_ = true;  // the job leaves the container
  logs_ = {{"j-worker-0", TimedLine(1, "one") + "2026-05-01T12:00:02.0"}};
  log_read_ = [&](FakeHttpServer::Connection& to) {
    switch (asked_.size()) {
      case 1:
        logs_["j-worker-0"] =
            TimedLine(1, "one") + TimedLine(2, "two") + "2026-05-01T12:00:03.000000000Z thr";
        return to.EndChunks();
      case 2:
        logs_["j-worker-0"] = TimedLine(2, "two") + TimedLine(3, "three");
        pods_ = {Pod("worker", 0, kEnded)};
        return to.Cut();
      default:
        return to.EndChunks();
    }
  };
  MergedLogsOptions options;
  options.log.follow = true;
  options.log.tail_lines = 7;
  EXPECT_EQ(Print(options), "worker-0 | one\nworker-0 | two\nworker-0 | three\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "");
  ASSERT_EQ(asked_.size(), 3u);
  EXPECT_THAT(asked_[0], HasSubstr("tailLines=7"));
  EXPECT_THAT(asked_[1],
              AllOf(HasSubstr("sinceTime=2026-05-01T12%3A00%3A01Z"), Not(HasSubstr("tailLines"))));
  EXPECT_THAT(asked_[2], HasSubstr("sinceTime=2026-05-01T12%3A00%3A02Z"));
}

// The kubelet reports the end of a container, and the restart, after the log has gone on.
TEST_F(MergedLogsTest, ALineOfARestartedContainerIsPrintedOnce) {
  pods_ = {Pod("worker", 0, kRunning)};
  logs_ = {{"j-worker-0", TimedLine(1, "one")}};
  int looks_after = 0;  // after the restart was reported
  log_read_ = [&](FakeHttpServer::Connection& to) {
    if (asked_.size() == 1)
      logs_["j-worker-0"] = TimedLine(2, "two");  // of the container that runs now
    if (asked_.size() == 2) {
      logs_["j-worker-0"] = TimedLine(2, "two") + TimedLine(3, "three");
      pods_ = {Pod("worker", 0, kRunning, 1)};
    }
    if (asked_.size() > 3) pods_ = {Pod("worker", 0, kEnded, 1)};
    to.EndChunks();
  };
  looked_ = [&] {
    const Object& status = pods_[0]["status"]["containerStatuses"][0];
    ended_ = status["restartCount"] == 1 && ++looks_after > 3;
  };
  MergedLogsOptions options;
  options.log.follow = true;
  EXPECT_EQ(Print(options), "worker-0 | one\nworker-0 | two\nworker-0 | three\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "");
}

// While the connection was lost, the container has written more and was restarted.
TEST_F(MergedLogsTest, WhatAContainerWroteBeforeItsRestartIsNotMissing) {
  pods_ = {Pod("worker", 0, kRunning)};
  ended_ = true;  // the job leaves the container
  logs_ = {{"j-worker-0", TimedLine(1, "one") + TimedLine(2, "t")}};
  log_read_ = [&](FakeHttpServer::Connection& to) {
    if (asked_.size() == 1) {
      previous_log_ = TimedLine(1, "one") + TimedLine(2, "t") +
                      "2026-05-01T12:00:03.000000000Z killed in the mid";
      logs_["j-worker-0"] = TimedLine(4, "four");
      pods_ = {Pod("worker", 0, kEnded, 1)};
      return to.Cut();
    }
    to.EndChunks();
  };
  MergedLogsOptions options;
  options.log.follow = true;
  options.log.tail_lines = 2;
  EXPECT_EQ(Print(options),
            "worker-0 | one\nworker-0 | t\nworker-0 | killed in the mid\nworker-0 | four\n");
  EXPECT_TRUE(status_.ok()) << status_;
  ASSERT_EQ(asked_.size(), 3u);
  EXPECT_THAT(asked_[1], AllOf(HasSubstr("previous=true"), Not(HasSubstr("follow=true"))));
}

TEST_F(MergedLogsTest, OneReplicaIsFollowedToTheEndOfTheJob) {
  pods_ = {Pod("worker", 0, kRunning), Pod("worker", 1, kRunning)};
  logs_ = {{"j-worker-0", TimedLine(1, "another's")}, {"j-worker-1", TimedLine(2, "one")}};
  int looks = 0;
  looked_ = [&] {
    if (++looks == 1) {
      Object replacement = Pod("worker", 1, kEnded);  // as the restart of a gang makes it
      replacement["metadata"]["uid"] = "uid-2";
      pods_ = {replacement};
      logs_ = {{"j-worker-1", TimedLine(3, "two")}};
    }
    ended_ = looks == 2;
  };
  MergedLogsOptions options;
  options.role = api::Role::kWorker;
  options.index = 1;
  options.log.follow = true;
  options.timestamps = true;
  EXPECT_THAT(Print(options), ::testing::EndsWith("2026-05-01T12:00:03.000000000Z two\n"));
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(asked_, ::testing::Each(HasSubstr("j-worker-1")));
}

TEST_F(MergedLogsTest, AFollowedReplicaWithoutALogIsWaitedFor) {
  pods_ = {Pod("worker", 1, {{"waiting", {{"reason", "ImagePullBackOff"}}}})};
  looked_ = [&] {
    pods_ = {Pod("worker", 1, kEnded)};
    logs_ = {{"j-worker-1", TimedLine(2, "one")}};
    ended_ = true;
  };
  MergedLogsOptions options;
  options.role = api::Role::kWorker;
  options.index = 1;
  options.log.follow = true;
  EXPECT_EQ(Print(options), "one\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_,
            "lockstep: worker-1 has no log yet: ImagePullBackOff\n"
            "lockstep: there is no log yet: the job is Running\n");
}

// An API server may check nothing, and its labels begin lines on a terminal.
TEST_F(MergedLogsTest, OnlyARoleAndANumberNameAReplica) {
  const auto name_of = [](const char* role, const char* index) {
    Object pod = Pod("worker", 1, kRunning);
    pod["metadata"]["labels"] = {{api::kLabelRole, role}, {api::kLabelReplicaIndex, index}};
    return ReplicaName(pod);
  };
  EXPECT_EQ(name_of("ps", "12"), "ps-12");
  EXPECT_EQ(name_of("\033[2J", "1\033]0;title\a"), "?-?");
  EXPECT_EQ(name_of("worker-0  | done\nworker", "1\nworker-2"), "?-?");
  pods_ = {Pod("worker", 1, kEnded)};
  pods_[0]["metadata"]["labels"][api::kLabelReplicaIndex] = "1\033[2J";
  logs_ = {{"j-worker-1", TimedLine(2, "one")}};
  ended_ = true;
  EXPECT_EQ(Print({}), "worker-? | one\n");
}

}  // namespace
}  // namespace lockstep::cli
