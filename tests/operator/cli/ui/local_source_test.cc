#include "operator/cli/ui/local_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/descriptor.h"
#include "operator/cli/local/work_dir.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// Folders as `lockstep run` leaves them.
class LocalSourceTest : public ::testing::Test {
 protected:
  // Started so many seconds after the first.
  void AddRun(const std::string& name, int start) {
    fs::create_directories(runs_.At(name + "/logs/j-worker-0"));
    WriteTextFile(runs_.At(name + "/.lock"), "0");
    fs::last_write_time(runs_.At(name + "/.lock"), first_ + std::chrono::seconds(start));
  }
  void WriteLog(const std::string& text, const std::string& file = "0.log") {
    std::ofstream(runs_.At("r/logs/j-worker-0/" + file), std::ios::app) << text;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto jobs = source_->List();
    if (!jobs.ok()) return {std::string(jobs.status().message())};
    for (const ListedJob& job : *jobs) names.push_back(fs::path(job.key.name).filename());
    return names;
  }

  const TempDirectory runs_;
  const fs::file_time_type first_ = fs::file_time_type::clock::now();
  std::unique_ptr<JobSource> source_ = MakeLocalSource(runs_.path());
};

TEST_F(LocalSourceTest, TheRunThatWasStartedLastIsFirstWhoeverWroteLast) {
  AddRun("a", 0);
  AddRun("b", 60);
  AddRun("c", 60);
  EXPECT_THAT(Names(), ElementsAre("b", "c", "a"));
  for (const char* writes : {"a", "c", "b"}) {
    WriteTextFile(runs_.At(std::string(writes) + "/view.json"), "{}");
    fs::last_write_time(runs_.At(writes), fs::file_time_type::clock::now() + std::chrono::hours(1));
    EXPECT_THAT(Names(), ElementsAre("b", "c", "a"));
  }
}

// As a test can see it: by a view of another text and the same time, which no run writes.
TEST_F(LocalSourceTest, AViewThatHasNotChangedIsNotReadAgain) {
  AddRun("r", 0);
  const auto list = [this](const std::string& name, int second) {
    WriteTextFile(runs_.At("r/view.json"),
                  fmt::format(R"({{"job": {{"metadata": {{"name": "{}"}}}}}})", name));
    fs::last_write_time(runs_.At("r/view.json"), first_ + std::chrono::seconds(second));
    const auto jobs = source_->List();
    return jobs.ok() && jobs->size() == 1 ? jobs->front().job.metadata.name : "none";
  };
  EXPECT_EQ("one", list("one", 0));
  EXPECT_EQ("one", list("two", 0));
  EXPECT_EQ("three", list("three", 1));
}

// It serves no metrics.
TEST_F(LocalSourceTest, ARunOfAnImageOfOnesOwnGoesOn) {
  auto run = std::make_unique<absl::StatusOr<WorkDir>>(WorkDir::Open(runs_.At("r"), "j"));
  ASSERT_TRUE(run->ok()) << run->status();
  ASSERT_TRUE((*run)->WriteMetricsAddresses({}).ok());
  ASSERT_TRUE((*run)->WriteView(R"({"job": {"status": {"state": "Running"}}})").ok());
  const auto state = [&] {
    const auto look = source_->Look({"", runs_.At("r")}, true);
    EXPECT_TRUE(look.ok()) << look.status();
    EXPECT_EQ(look->seen.over, look->listed.state == "Ended");
    EXPECT_EQ(look->seen.top.state, look->listed.state);
    EXPECT_EQ(source_->List()->front().state, look->listed.state);
    return look->listed.state;
  };
  EXPECT_EQ("Running", state());
  run.reset();  // killed: its files stay
  EXPECT_EQ("Ended", state());
}

// Its process has another number there, or none.
TEST_F(LocalSourceTest, ARunInAContainerGoesOn) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  AddRun("r", 0);
  WriteTextFile(runs_.At("r/.lock"), fmt::format("{} pid:[1]", gone));
  WriteTextFile(runs_.At("r/metrics.json"), "{}");
  WriteTextFile(runs_.At("r/view.json"), R"({"job": {"status": {"state": "Running"}}})");
  const Descriptor lock(::open(runs_.At("r/.lock").c_str(), O_RDONLY | O_CLOEXEC));
  const auto state = [&] { return source_->Look({"", runs_.At("r")}, true)->listed.state; };
  EXPECT_EQ("Ended", state());
  ASSERT_EQ(0, ::flock(lock.fd(), LOCK_EX));
  EXPECT_EQ("Running", state());
  EXPECT_EQ("Running", source_->List()->front().state);
}

TEST_F(LocalSourceTest, AnotherUsersFolderIsNoRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  AddRun("mine", 0);
  AddRun("other", 0);
  ASSERT_EQ(0, ::chown(runs_.At("other/.lock").c_str(), 12345, 12345));
  EXPECT_THAT(Names(), ElementsAre("mine"));
  EXPECT_TRUE(absl::IsNotFound(source_->Look({"", runs_.At("other")}, true).status()));
}

TEST_F(LocalSourceTest, AViewThatIsNestedWithoutEndIsNone) {
  AddRun("r", 0);
  constexpr std::size_t kDepth = 1'000'000;
  WriteTextFile(runs_.At("r/view.json"),
                R"({"pods": [)" + std::string(kDepth, '[') + std::string(kDepth, ']') + "]}");
  WriteTextFile(runs_.At("r/report.json"), std::string(kDepth, '[') + std::string(kDepth, ']'));
  EXPECT_THAT(Names(), ElementsAre("r"));
  EXPECT_TRUE(source_->Look({"", runs_.At("r")}, true).ok());
}

class LocalLogTest : public LocalSourceTest {
 protected:
  LocalLogTest() {
    AddRun("r", 0);
    WriteLog("");
    tail_ = source_->Tail({"", runs_.At("r")}, "worker-0");
  }
  std::vector<LogLine> Read() {
    std::vector<LogLine> lines;
    EXPECT_TRUE(tail_->Read(lines).ok());
    return lines;
  }
  // As a page shows them.
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (const LogLine& line : Read()) texts.push_back(ShownLine(line.text));
    return texts;
  }
  void SetTimeOfLog(std::chrono::seconds ago) {
    fs::last_write_time(runs_.At("r/logs/j-worker-0/0.log"),
                        fs::file_time_type::clock::now() - ago);
  }

  std::unique_ptr<LogTail> tail_;
};

TEST_F(LocalSourceTest, ALogIsReadThoughAPageAskedBeforeTheRunBegan) {
  const auto tail = source_->Tail({"", runs_.At("r")}, "");
  std::vector<LogLine> lines;
  EXPECT_TRUE(absl::IsNotFound(tail->Read(lines)));
  fs::create_directories(runs_.At("r/logs/j-worker-0"));
  WriteLog("begins\n");
  EXPECT_TRUE(absl::IsNotFound(tail->Read(lines))) << "a folder that is no run";
  EXPECT_TRUE(lines.empty());
  AddRun("r", 0);
  EXPECT_TRUE(tail->Read(lines).ok());
  ASSERT_EQ(1U, lines.size());
  EXPECT_EQ("begins", lines.front().text);
}

TEST_F(LocalLogTest, ALogThatWasMadeAgainIsReadFromItsBegin) {
  WriteLog("one\ntwo");
  EXPECT_THAT(Texts(), ElementsAre("one"));
  fs::remove_all(runs_.At("r"));
  AddRun("r", 1);
  WriteLog("a longer line\nand another\n");
  EXPECT_THAT(Texts(), ElementsAre("two", "a longer line", "and another"));
}

TEST_F(LocalLogTest, ALineWithoutATimeHasThatAtWhichItCame) {
  WriteLog("begins\n");
  SetTimeOfLog(std::chrono::hours(3));
  ASSERT_THAT(Texts(), ElementsAre("begins"));
  WriteLog("three hours later\n");
  SetTimeOfLog(std::chrono::seconds(0));
  const std::vector<LogLine> lines = Read();
  ASSERT_EQ(1U, lines.size());
  const auto age = std::chrono::system_clock::now() - lines.front().time;
  EXPECT_LT(age, std::chrono::minutes(1));
  EXPECT_GT(age, -std::chrono::minutes(1));
}

TEST_F(LocalLogTest, ALineWithoutATimeIsNoLaterThanTheTrainersLineBehindIt) {
  WriteLog("before\n{\"time\":\"2026-05-01T12:00:00Z\"}\nafter\n");
  const std::vector<LogLine> lines = Read();
  ASSERT_EQ(3U, lines.size());
  EXPECT_EQ(lines[1].time, lines[0].time);
  EXPECT_EQ(lines[1].time, lines[2].time);
}

TEST_F(LocalLogTest, OfALogThatGrowsFasterThanItIsShownTheNewestLinesAre) {
  WriteLog("first\n");
  Read();
  std::string many;
  while (many.size() < (10U << 20U)) many += "a line of many\n";
  WriteLog(many + "last\n");
  const std::vector<std::string> lines = Texts();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ("a line of many", lines.front());
  EXPECT_EQ("last", lines.back());
  EXPECT_TRUE(Read().empty());
}

TEST_F(LocalLogTest, ALogOfAnotherStartIsReadBehindTheEndOfTheOneBefore) {
  WriteLog("begins\n");
  Read();
  WriteLog("why it ends\n");
  WriteLog("begins again\n", "1.log");
  EXPECT_THAT(Texts(), ElementsAre("why it ends", "begins again"));
  EXPECT_TRUE(Read().empty());
}

TEST_F(LocalLogTest, ALastLineWithoutALineFeedIsShownOnceItsProgramIsStartedAgain) {
  WriteLog("a\nSegmentation fault");
  EXPECT_THAT(Texts(), ElementsAre("a"));
  WriteLog("begins again\n", "1.log");
  EXPECT_THAT(Texts(), ElementsAre("Segmentation fault", "begins again"));
  EXPECT_TRUE(Read().empty());
}

TEST_F(LocalLogTest, ALastLineWithoutALineFeedIsShownOnceItsProgramHasBeenSilent) {
  WriteLog("a\nSegmentation fault");
  EXPECT_THAT(Texts(), ElementsAre("a"));
  EXPECT_TRUE(Read().empty());
  SetTimeOfLog(std::chrono::seconds(11));
  EXPECT_THAT(Texts(), ElementsAre("Segmentation fault"));
  EXPECT_TRUE(Read().empty());
}

TEST_F(LocalLogTest, ALineThatIsRedrawnIsShownThoughItDoesNotEnd) {
  WriteLog("1%\r2%\r3%");
  EXPECT_TRUE(Read().empty());  // its end may be on its way
  EXPECT_THAT(Texts(), ElementsAre("3%"));
  WriteLog("\r4%\r");
  EXPECT_TRUE(Read().empty());  // nothing else would fit into the window
  WriteLog("\r100%\n");
  EXPECT_THAT(Texts(), ElementsAre("100%"));
  WriteLog("half a");
  EXPECT_TRUE(Read().empty());
  EXPECT_TRUE(Read().empty());
  WriteLog(" line\n");
  EXPECT_THAT(Texts(), ElementsAre("half a line"));
}

}  // namespace
}  // namespace lockstep::cli
