// The whole operator over a real API server, with a kubelet that only says what pods do.
#include "operator/controller/job_controller.h"
#include "tests/support/controller_uid.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "api/proto/trainer_status.grpc.pb.h"
#include "api/v1/names.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/progress/progress_poller.h"
#include "tests/integration/api_server.h"
#include "tests/operator/controller/world.h"
#include "tests/support/builders.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_kubelet.h"
#include "tests/support/folders.h"
#include "tests/support/temp_directory.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using testing::ApiServer;
using ::testing::ElementsAre;
using testing::Eventually;
using testing::FakeKubelet;
using ::testing::HasSubstr;
using testing::Job;
using testing::JobBuilder;
using Fate = FakeKubelet::Fate;

class JobOnRealServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const bool kInstalled = [this] {
      testing::InstallDefinition(*client_,
                                 ReadTextFile(LOCKSTEP_SOURCE_DIR "/api/crd/trainingjobs.yaml"),
                                 kTrainingJobKind);
      return true;
    }();
    ASSERT_TRUE(kInstalled);
    namespace_ = testing::NewNamespace(*client_);
    kubelet_ = std::make_unique<FakeKubelet>(
        *client_, namespace_, [this](const kube::Object& pod) { return script_(pod); });
    StartOperator();
  }
  void TearDown() override {
    operator_.reset();
    kubelet_.reset();
  }

  void StartOperator() {
    JobControllerOptions options;
    options.namespaces = {namespace_};
    options.settings.restart_backoff = milliseconds(1);
    options.settings.status_interval = milliseconds(100);
    operator_ =
        std::make_unique<JobController>(*operator_client_, addresses_, *source_, clock_, options);
    operator_->Start();
  }

  void Submit(const JobBuilder& builder) {
    api::TrainingJob job = builder.Build();
    job.metadata.namespace_name = namespace_;
    job.metadata.uid.clear();
    const auto made = client_->Create(kTrainingJobKind, api::TrainingJobToJson(job));
    ASSERT_TRUE(made.ok()) << made.status();
  }
  kube::Object ReadJob(const std::string& name) {
    auto job = client_->Get(kTrainingJobKind, {namespace_, name});
    return job.ok() ? *std::move(job) : kube::Object();
  }
  std::string StateOf(const std::string& name) {
    return ReadJob(name).value("/status/state"_json_pointer, "");
  }
  bool Reaches(const std::string& name, const std::string& state) {
    const bool reached = Eventually([&] { return StateOf(name) == state; });
    EXPECT_TRUE(reached) << ReadJob(name).value("status", kube::Object()).dump(1);
    return reached;
  }
  void Change(const std::string& name, const std::function<void(kube::Object&)>& change) {
    absl::Status written;
    do {  // the operator writes too
      kube::Object job = ReadJob(name);
      change(job);
      written = client_->Update(kTrainingJobKind, job).status();
    } while (absl::IsAborted(written));
    ASSERT_TRUE(written.ok()) << written;
  }
  std::vector<std::string> Names(const kube::Kind& kind) {
    kube::ListOptions options;
    options.namespace_name = namespace_;
    const auto page = client_->List(kind, options);
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> names;
    for (const kube::Object& object : page->items) names.push_back(kube::Name(object));
    return names;
  }
  static std::string AttemptOf(const kube::Object& pod) {
    return kube::Label(pod, api::kLabelAttempt);
  }

  const SystemClock clock_;
  const DnsAddresses addresses_;
  testing::FakeProgress progress_;
  ProgressSource* source_ = &progress_;
  std::string namespace_;
  FakeKubelet::Script script_ = [](const kube::Object&) { return Fate::kRuns; };
  std::unique_ptr<kube::RestClient> client_ = ApiServer::Get().Connect();
  std::unique_ptr<kube::RestClient> operator_client_ = ApiServer::Get().Connect();
  std::unique_ptr<FakeKubelet> kubelet_;
  std::unique_ptr<JobController> operator_;
};

TEST_F(JobOnRealServerTest, AJobRunsAndSucceeds) {
  Submit(Job("j").Chief().Workers(2).CleanPodPolicy(api::CleanPodPolicy::kNone));
  ASSERT_TRUE(Reaches("j", "Running"));
  EXPECT_THAT(Names(kube::kPodKind), ElementsAre("j-chief-0", "j-worker-0", "j-worker-1"));
  EXPECT_THAT(Names(kube::kServiceKind), ElementsAre("j"));
  kubelet_->FinishAll();
  ASSERT_TRUE(Reaches("j", "Succeeded"));
  const kube::Object status = ReadJob("j")["status"];
  EXPECT_EQ(status["observedGeneration"], 1);
  EXPECT_TRUE(status.contains("completionTime"));
}

TEST_F(JobOnRealServerTest, AFailedGangIsRecreatedAndTheJobStillSucceeds) {
  script_ = [](const kube::Object& pod) {
    if (AttemptOf(pod) == "0" && kube::Name(pod) == "j-worker-1") return Fate::kRetryable;
    return AttemptOf(pod) == "0" ? Fate::kRuns : Fate::kSucceeds;
  };
  Submit(Job("j").Workers(2).RestartScope(api::RestartScope::kGang));
  ASSERT_TRUE(Reaches("j", "Succeeded"));
  const kube::Object status = ReadJob("j")["status"];
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status["restarts"]["application"], 1);
}

TEST_F(JobOnRealServerTest, AnEvictedPodIsReplacedWithoutBeingCharged) {
  script_ = [](const kube::Object& pod) {
    if (AttemptOf(pod) == "0" && kube::Name(pod) == "j-worker-0") return Fate::kEvicted;
    return AttemptOf(pod) == "0" ? Fate::kRuns : Fate::kSucceeds;
  };
  Submit(Job("j").Workers(2).RestartScope(api::RestartScope::kGang).BackoffLimit(0));
  ASSERT_TRUE(Reaches("j", "Succeeded"));
  const kube::Object status = ReadJob("j")["status"];
  EXPECT_EQ(status["restarts"]["disruption"], 1);
  EXPECT_EQ(status["restarts"].value("application", 0), 0);
}

TEST_F(JobOnRealServerTest, APermanentFailureIsReportedWithItsPod) {
  script_ = [](const kube::Object& pod) {
    return kube::Name(pod) == "j-worker-1" ? Fate::kFails : Fate::kRuns;
  };
  Submit(Job("j").Workers(2).RestartPolicy(api::Role::kWorker, api::RestartPolicy::kExitCode));
  ASSERT_TRUE(Reaches("j", "Failed"));
  const kube::Object failure = ReadJob("j")["status"]["failure"];
  EXPECT_EQ(failure["index"], 1);
  EXPECT_EQ(failure["exitCode"], 1);
}

TEST_F(JobOnRealServerTest, AFailedInitContainerIsReportedAndASidecarsEndIsNot) {
  api::Json pod_template = testing::Template();
  pod_template["spec"]["initContainers"] = {
      {{"name", "proxy"}, {"image", "x"}, {"restartPolicy", "Always"}},
      {{"name", "fetch"}, {"image", "x"}}};
  Submit(Job("j")
             .Workers(1)
             .PodTemplate(api::Role::kWorker, pod_template)
             .RestartScope(api::RestartScope::kGang)
             .BackoffLimit(0));
  ASSERT_TRUE(Reaches("j", "Running"));
  const auto ended = [](const char* name, int code) {
    return kube::Object{{"name", name},
                        {"image", "x"},
                        {"imageID", "x"},
                        {"ready", false},
                        {"restartCount", 0},
                        {"state", {{"terminated", {{"exitCode", code}, {"reason", "Error"}}}}}};
  };
  absl::Status written;
  do {  // the fake kubelet writes too
    auto pod = client_->Get(kube::kPodKind, {namespace_, "j-worker-0"});
    ASSERT_TRUE(pod.ok()) << pod.status();
    (*pod)["status"] = {{"phase", "Failed"},
                        {"initContainerStatuses", {ended("proxy", 143), ended("fetch", 3)}}};
    written = client_->UpdateStatus(kube::kPodKind, *pod).status();
  } while (absl::IsAborted(written));
  ASSERT_TRUE(written.ok()) << written;
  ASSERT_TRUE(Reaches("j", "Failed"));
  const kube::Object failure = ReadJob("j")["status"]["failure"];
  EXPECT_EQ(failure["reason"], "InitContainerFailed");
  EXPECT_EQ(failure["exitCode"], 3);
  EXPECT_EQ(failure["message"], "init container fetch of worker-0 exited with code 3");
}

TEST_F(JobOnRealServerTest, ASuspendedJobHasNoPodsUntilItIsResumed) {
  Submit(Job("j").Workers(2));
  ASSERT_TRUE(Reaches("j", "Running"));
  Change("j", [](kube::Object& job) { job["spec"]["suspend"] = true; });
  ASSERT_TRUE(Reaches("j", "Suspended"));
  EXPECT_TRUE(Eventually([&] { return Names(kube::kPodKind).empty(); }));
  Change("j", [](kube::Object& job) { job["spec"]["suspend"] = false; });
  ASSERT_TRUE(Reaches("j", "Running"));
  kubelet_->FinishAll();
  ASSERT_TRUE(Reaches("j", "Succeeded"));
}

TEST_F(JobOnRealServerTest, AFinishedJobIsDeletedWhenItsTimeIsUp) {
  script_ = [](const kube::Object&) { return Fate::kSucceeds; };
  Submit(Job("j").Workers(1).TtlSecondsAfterFinished(0));
  EXPECT_TRUE(Eventually(
      [&] { return Names(kTrainingJobKind).empty() && !Names(kube::kEventKind).empty(); }));
}

TEST_F(JobOnRealServerTest, AJobDeletedWhileItRunsLeavesNoTrouble) {
  Submit(Job("j").Workers(2));
  Submit(Job("other").Workers(1));
  ASSERT_TRUE(Reaches("j", "Running"));
  ASSERT_TRUE(client_->Delete(kTrainingJobKind, {namespace_, "j"}, {}).ok());
  kubelet_->FinishAll();
  ASSERT_TRUE(Reaches("other", "Succeeded"));
  // Its pods have an owner that is gone: the collector's, who does not run here.
  EXPECT_TRUE(Eventually([&] { return operator_->jobs().Get({namespace_, "j"}) == nullptr; }));
}

TEST_F(JobOnRealServerTest, AnotherOperatorGoesOnWhereOneStopped) {
  Submit(Job("j").Workers(3));
  ASSERT_TRUE(Eventually([&] { return !Names(kube::kPodKind).empty(); }));
  operator_.reset();
  StartOperator();
  ASSERT_TRUE(Reaches("j", "Running"));
  operator_.reset();
  kubelet_->FinishAll();
  StartOperator();
  ASSERT_TRUE(Reaches("j", "Succeeded"));
  EXPECT_EQ(ReadJob("j")["status"]["attempt"], 0);
}

// A leading pod whose rank 0 never finishes a step.
class StuckTrainer final : public proto::TrainerStatus::Service {
 public:
  StuckTrainer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~StuckTrainer() override { server_->Shutdown(); }
  int port() const { return port_; }

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest*,
                         proto::GetStatusResponse* response) override {
    response->set_activity(proto::ACTIVITY_STEP);
    response->mutable_progress()->set_step(7);
    response->mutable_progress()->set_total_steps(100);
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(JobOnRealServerTest, AJobThatMakesNoProgressIsRestartedAndSaysWhy) {
  StuckTrainer trainer;
  progress::ProgressPoller poller({.interval = milliseconds(100)});
  operator_.reset();
  source_ = &poller;
  StartOperator();
  api::Json pod = testing::Template();
  pod["spec"]["containers"][0]["ports"] = {
      {{"name", "cluster"}, {"containerPort", trainer.port()}}};
  Submit(Job("j")
             .Workers(1)
             .PodTemplate(api::Role::kWorker, pod)
             .Training()
             .ProgressDeadlineSeconds(10)
             .BackoffLimit(1));
  ASSERT_TRUE(Reaches("j", "Running"));
  ASSERT_TRUE(Eventually([&] { return ReadJob("j")["status"].value("attempt", 0) == 1; }));
  const kube::Object failure = ReadJob("j")["status"]["failure"];
  EXPECT_EQ(failure["reason"], "ProgressDeadlineExceeded");
  EXPECT_THAT(failure["message"].get<std::string>(),
              HasSubstr("worker-0 has finished no step since step 7 of 100, since "));
  ASSERT_TRUE(Reaches("j", "Running")) << "as the next attempt";
  ASSERT_TRUE(Reaches("j", "Failed")) << "backoffLimit allows one restart";
  operator_.reset();  // before the poller goes
}

TEST_F(JobOnRealServerTest, APodOfAnotherOwnerIsLeftAloneAndNamed) {
  const kube::Object foreign = {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", "j-worker-1"}, {"namespace", namespace_}}},
      {"spec", {{"containers", {{{"name", "main"}, {"image", "busybox"}}}}}}};
  ASSERT_TRUE(client_->Create(kube::kPodKind, foreign).ok());
  Submit(Job("j").Workers(2));
  EXPECT_TRUE(
      Eventually([&] { return ReadJob("j").dump().find("j-worker-1") != std::string::npos; }));
  const auto pod = client_->Get(kube::kPodKind, {namespace_, "j-worker-1"});
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(kube::ControllerUid(*pod), "");
}

}  // namespace
}  // namespace lockstep::controller
