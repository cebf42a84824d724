#include "operator/cli/status_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "operator/controller/state/kinds.h"
#include "operator/local/memory_client.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

using controller::kTrainingJobKind;
using lockstep::testing::FakeClock;
using lockstep::testing::Job;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() : client_(clock_) {}
  ~StatusTest() override { std::fclose(out_); }

  void Add(const std::string& space, const std::string& name) {
    const auto job = Job(name).Namespace(space).Workers(2).Build();
    ASSERT_TRUE(client_.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  }
  void SetState(const std::string& name, const std::string& state) {
    kube::Object job = *client_.Get(kTrainingJobKind, {"team", name});
    job["status"] = {{"state", state},
                     {"conditions", {{{"type", state}, {"status", "True"}, {"reason", "R"}}}}};
    ASSERT_TRUE(client_.UpdateStatus(kTrainingJobKind, job).ok());
  }
  absl::Status Show(
      const StatusOptions& options, const std::function<bool()>& wait = [] {
        ADD_FAILURE() << "waited";
        return false;
      }) {
    return ShowStatus(client_, options, clock_, out_, wait);
  }
  std::string Printed() { return ReadTextFile(folder_.At("out")); }

  FakeClock clock_;
  local::MemoryClient client_;
  TempDirectory folder_;
  std::FILE* const out_ = std::fopen(folder_.At("out").c_str(), "w");
};

TEST_F(StatusTest, OneTableOfANamespaceSortedByName) {
  Add("team", "b");
  Add("team", "a");
  Add("other", "c");
  ASSERT_TRUE(Show({.namespace_name = "team"}).ok());
  EXPECT_THAT(Printed(), HasSubstr("\na "));
  EXPECT_LT(Printed().find("\na "), Printed().find("\nb "));
  EXPECT_THAT(Printed(), Not(HasSubstr("\nc ")));
  EXPECT_THAT(Printed(), Not(HasSubstr("\033")));
}

TEST_F(StatusTest, AllNamespacesHaveAColumn) {
  Add("team", "a");
  Add("other", "c");
  ASSERT_TRUE(Show({}).ok());
  EXPECT_THAT(Printed(), HasSubstr("NAMESPACE"));
  EXPECT_THAT(Printed(), HasSubstr("other       c"));
}

TEST_F(StatusTest, NoJobsAreSaidToBeNone) {
  ASSERT_TRUE(Show({.namespace_name = "team"}).ok());
  EXPECT_EQ(Printed(), "No TrainingJobs in namespace team.\n");
}

TEST_F(StatusTest, AJobThatIsNotThereIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(Show({.job = "no", .namespace_name = "team"})));
}

TEST_F(StatusTest, WatchingPrintsWhatChangesAndEndsWithTheJobs) {
  Add("team", "a");
  int waits = 0;
  const auto wait = [&] {
    ++waits;
    if (waits == 2) SetState("a", "Running");
    if (waits == 4) SetState("a", "Succeeded");
    return true;
  };
  ASSERT_TRUE(Show({.job = "a", .namespace_name = "team", .watch = true}, wait).ok());
  EXPECT_EQ(waits, 4);
  std::size_t tables = 0;
  const std::string printed = Printed();
  for (std::size_t at = 0; (at = printed.find("NAME", at)) != std::string::npos; ++at) ++tables;
  EXPECT_EQ(tables, 3U) << printed;
}

TEST_F(StatusTest, AJobThatWasWatchedAndFailedIsAnErrorOfItsOwn) {
  Add("team", "a");
  SetState("a", "Failed");
  const StatusOptions once{.job = "a", .namespace_name = "team"};
  EXPECT_TRUE(Show(once).ok()) << "to look is not to wait";
  StatusOptions watched = once;
  watched.watch = true;
  const absl::Status status = Show(watched);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("job a failed: R"));
}

// A pseudo-terminal; the test reads its output from the other end.
class Terminal {
 public:
  Terminal() {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    out_ = std::fopen(ptsname(master_), "w");
  }
  ~Terminal() {
    std::fclose(out_);
    close(master_);
  }
  std::FILE* out() const { return out_; }
  // Returns the output, which arrives in pieces, up to `last`, or less if `last` does not arrive.
  std::string ReadTo(const std::string& last) const {
    std::string text;
    char buffer[4096];
    pollfd readable{master_, POLLIN, 0};
    while (text.find(last) == std::string::npos && poll(&readable, 1, 10'000) == 1) {
      const ssize_t size = read(master_, buffer, sizeof buffer);
      if (size <= 0) break;
      text.append(buffer, static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  const int master_ = posix_openpt(O_RDWR | O_NOCTTY);
  std::FILE* out_ = nullptr;
};

TEST_F(StatusTest, ATerminalsTableIsDrawnOverInPlace) {
  Add("team", "a");
  const Terminal terminal;
  const auto wait = [this] {
    SetState("a", "Succeeded");
    return true;
  };
  const StatusOptions options{.job = "a", .namespace_name = "team", .watch = true};
  ASSERT_TRUE(ShowStatus(client_, options, clock_, terminal.out(), wait).ok());
  const std::string shown = terminal.ReadTo("Succeeded");
  const std::size_t drawn_over = shown.find("\033[2A\033[J");  // two lines up: a header and a row
  ASSERT_NE(drawn_over, std::string::npos) << shown;
  EXPECT_THAT(shown.substr(drawn_over), HasSubstr("Succeeded"));
}

TEST_F(StatusTest, AJobThatCannotBeReadIsStillShown) {
  Add("team", "a");
  kube::Object job = *client_.Get(kTrainingJobKind, {"team", "a"});
  job["spec"]["replicaSpecs"] = 7;
  ASSERT_TRUE(client_.Update(kTrainingJobKind, job).ok());
  ASSERT_TRUE(Show({.namespace_name = "team"}).ok());
  EXPECT_THAT(Printed(), HasSubstr("\na "));
}

}  // namespace
}  // namespace lockstep::cli
