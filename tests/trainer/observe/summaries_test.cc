#include "trainer/observe/summaries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/support/temp_directory.h"
#include "tests/trainer/observe/event_file.h"
#include "trainer/core/crc32c.h"
#include "trainer/observe/event_record.h"

namespace lockstep::train {
namespace {

TEST(SummaryWriterTest, FileBeginsWithTheVersionAndHoldsEveryScalar) {
  const TempDirectory folder;
  const auto writer = SummaryWriter::Open(folder.At("logs/train"));
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Scalar("loss", 0.5, 1);
  (*writer)->Scalar("loss", 0.25, 300);
  ASSERT_TRUE((*writer)->Flush().ok());
  const auto files = FilesIn(folder.At("logs/train"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0], ::testing::HasSubstr("/events.out.tfevents."));
  const auto records = Records(ReadTextFile(files[0]));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_THAT(records[0], ::testing::HasSubstr("brain.Event:2"));
  EXPECT_EQ(StepOf(records[1]), 1u);
  EXPECT_EQ(StepOf(records[2]), 300u);
}

TEST(SummaryWriterTest, NothingIsInTheFileBeforeFlushAndAllAfterTheDestructor) {
  const TempDirectory folder;
  auto writer = *SummaryWriter::Open(folder.path());
  writer->Scalar("loss", 0.5, 1);
  const std::string path = FilesIn(folder.path()).at(0);
  EXPECT_EQ(Records(ReadTextFile(path)).size(), 1u);
  writer.reset();
  EXPECT_EQ(Records(ReadTextFile(path)).size(), 2u);
}

TEST(SummaryWriterTest, EveryWriterHasItsOwnFile) {
  const TempDirectory folder;
  const auto first = SummaryWriter::Open(folder.path()),
             second = SummaryWriter::Open(folder.path());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(FilesIn(folder.path()).size(), 2u);
}

TEST(SummaryWriterTest, FolderThatCannotBeMadeIsNamed) {
  const TempDirectory folder;
  WriteTextFile(folder.At("file"), "");
  const absl::Status status = SummaryWriter::Open(folder.At("file/logs")).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(folder.At("file/logs")));
}

// A limit on file sizes cuts a write short as a full disk does.
TEST(SummaryWriterTest, FailedWriteLeavesWholeRecordsAndTheNextOneSucceeds) {
  const TempDirectory folder;
  auto writer = *SummaryWriter::Open(folder.path());
  writer->Scalar("loss", 0.5, 1);
  ASSERT_TRUE(writer->Flush().ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{130, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  writer->Begin(2);
  for (int step = 2; step < 10; ++step) writer->Scalar("loss", 0.5, step);
  const absl::Status status = writer->Flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_FALSE(status.ok());
  const std::string path = FilesIn(folder.path()).at(0);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path));
  EXPECT_EQ(Records(ReadTextFile(path)).size(), 2u);
  writer->Scalar("loss", 0.5, 10);
  ASSERT_TRUE(writer->Flush().ok());
  const auto records = Records(ReadTextFile(path));
  ASSERT_EQ(records.size(), 4u) << "where the run has begun is not dropped";
  EXPECT_EQ(StepOf(records[2]), 2u);
  EXPECT_EQ(StepOf(records[3]), 10u);
}

}  // namespace
}  // namespace lockstep::train
