#include "operator/cli/merged_logs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "api/v1/names.h"
#include "operator/cli/cluster_access.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

using kube::Object;
using lockstep::testing::FakeHttpServer;
using lockstep::testing::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Object kRunning = {{"running", {{"startedAt", "2026-05-01T12:00:00Z"}}}};
const Object kEnded = {{"terminated", {{"exitCode", 1}}}};

Object Pod(const std::string& role, int index, const Object& state, int restarts = 0) {
  const std::string name = fmt::format("j-{}-{}", role, index);
  Object container = {{"name", "trainer"}, {"restartCount", restarts}, {"state", state}};
  if (restarts > 0) container["lastState"] = kEnded;
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name},
            {"namespace", "n"},
            {"uid", "uid-of-" + name},
            {"labels",
             {{api::kLabelJobName, "j"},
              {api::kLabelRole, role},
              {api::kLabelReplicaIndex, std::to_string(index)}}},
            {"ownerReferences",
             {{{"apiVersion", "training.lockstep.dev/v1"},
               {"kind", "TrainingJob"},
               {"name", "j"},
               {"uid", "uid-of-j"},
               {"controller", true}}}}}},
          {"spec", {{"containers", {{{"name", "trainer"}}}}}},
          {"status", {{"phase", "Running"}, {"containerStatuses", {container}}}}};
}

std::string At(int second, const std::string& text) {
  return fmt::format("2026-05-01T12:00:{:02}.000000000Z {}\n", second, text);
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
      to.StartChunks();
      to.Chunk(log);
      if (log_read_) return log_read_(to);
      return to.EndChunks();
    }
    if (target.find("/log") != std::string::npos) return to.Respond(404, R"({"kind": "Status"})");
    to.Respond(
        200, Object{{"kind", "PodList"}, {"metadata", {{"resourceVersion", "1"}}}, {"items", pods_}}
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
  std::function<void()> looked_;                               // after each list of the pods
  std::vector<std::string> asked_;                             // requests for logs
  std::function<void(FakeHttpServer::Connection&)> log_read_;  // instead of the end of a log
  absl::Status status_;
  std::string errors_;
  testing::FakeCluster cluster_;
};

TEST_F(MergedLogsTest, EachLineHasItsReplicaAndItsPlaceInTime) {
  pods_ = {Pod("worker", 0, kRunning), Pod("ps", 10, kEnded)};
  logs_ = {{"j-worker-0", At(1, "one") + At(3, "three")}, {"j-ps-10", At(2, "two")}};
  EXPECT_EQ(Print({}), "worker-0 | one\nps-10    | two\nworker-0 | three\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "");
  MergedLogsOptions servers;
  servers.role = api::Role::kParameterServer;
  servers.timestamps = true;
  EXPECT_EQ(Print(servers), "ps-10 | 2026-05-01T12:00:02.000Z two\n");
}

TEST_F(MergedLogsTest, AReplicaWithoutALogIsNamed) {
  pods_ = {Pod("worker", 0, kRunning),
           Pod("worker", 1, {{"waiting", {{"reason", "ImagePullBackOff"}}}})};
  logs_ = {{"j-worker-0", At(1, "one")}};
  EXPECT_EQ(Print({}), "worker-0 | one\n");
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(errors_, "lockstep: worker-1 has no log: ImagePullBackOff\n");
}

TEST_F(MergedLogsTest, ALogThatCannotBeReadIsNamedAndTheOthersArePrinted) {
  pods_ = {Pod("worker", 0, kRunning), Pod("worker", 1, kRunning)};
  logs_ = {{"j-worker-0", At(1, "one")}};
  EXPECT_EQ(Print({}), "worker-0 | one\n");
  EXPECT_FALSE(status_.ok());
  EXPECT_THAT(errors_, HasSubstr("lockstep: worker-1: "));
}

TEST_F(MergedLogsTest, WithoutPodsTheStateOfTheJobIsTold) {
  EXPECT_EQ(Print({}), "");
  EXPECT_TRUE(absl::IsNotFound(status_)) << status_;
  EXPECT_THAT(std::string(status_.message()), HasSubstr("the job is Running"));
}

TEST_F(MergedLogsTest, WhatStartsLaterIsFollowedUntilTheJobHasEnded) {
  pods_ = {Pod("worker", 0, kRunning)};
  logs_ = {{"j-worker-0", At(1, "one")}};
  int looks = 0;
  looked_ = [&] {
    ++looks;
    if (looks == 1) logs_["j-worker-1"] = At(3, "late");
    if (looks == 2) {
      pods_ = {Pod("worker", 0, kEnded, 1), Pod("worker", 1, kEnded)};
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
  std::size_t first = text.find("worker-0 | one\n");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(text.find("worker-0 | one\n", first + 1), std::string::npos)
      << "the restarted container's log: " << text;
  EXPECT_GE(asked_.size(), 3u);
  EXPECT_THAT(asked_, ::testing::Contains(HasSubstr("tailLines=7")).Times(1))
      << "logs that begin later are read whole";
}

// As if the API server had lost its kubelet: first the log just ends, then the connection does.
TEST_F(MergedLogsTest, AFollowedLogGoesOnWhileItsContainerRuns) {
  pods_ = {Pod("worker", 0, kRunning)};
  ended_ = true;  // the job leaves the container
  logs_ = {{"j-worker-0", At(1, "one") + "2026-05-01T12:00:02.0"}};
  log_read_ = [&](FakeHttpServer::Connection& to) {
    switch (asked_.size()) {
      case 1:
        logs_["j-worker-0"] = At(1, "one") + At(2, "two") + "2026-05-01T12:00:03.000000000Z thr";
        return to.EndChunks();
      case 2:
        logs_["j-worker-0"] = At(2, "two") + At(3, "three");
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

}  // namespace
}  // namespace lockstep::cli
