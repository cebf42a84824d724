#include "operator/cli/init_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>

#include "api/v1/enum_names.h"
#include "operator/cli/files/job_file.h"
#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using api::DatasetFormat;
using ::testing::HasSubstr;

api::TrainingJob JobOf(const InitOptions& options) {
  const auto text = NewJob(options);
  EXPECT_TRUE(text.ok()) << text.status();
  const auto file = ParseJobFile(text.value_or(""), "job.yaml", {});
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->job : api::TrainingJob();
}

TEST(InitCommandTest, TheNamesOfTheFilesTellTheFormat) {
  const std::pair<const char*, DatasetFormat> cases[] = {
      {"train-images-idx3-ubyte.gz", DatasetFormat::kIdx},
      {"train-images.idx3-ubyte", DatasetFormat::kIdx},
      {"data_batch_1.bin", DatasetFormat::kCifar},
      {"train.bin", DatasetFormat::kCifar},
      {"x_train.npy", DatasetFormat::kNpy},
      {"train.csv", DatasetFormat::kCsv},
      {"cats-train.tfrecord-00000-of-00002", DatasetFormat::kTfRecord},
      {"train/cat", DatasetFormat::kImageFolder}};
  for (const auto& [name, format] : cases) {
    const TempDirectory folder;
    std::filesystem::create_directories(std::filesystem::path(folder.At(name)).parent_path());
    WriteTextFile(folder.At(name), "");
    const api::TrainingJob job = JobOf({.data = folder.path(), .workers = 3});
    EXPECT_EQ(job.spec.training->dataset.format, format) << name;
    EXPECT_EQ(job.spec.training->dataset.path, "/data");
    EXPECT_EQ(job.spec.replica_specs.at(api::Role::kWorker).replicas, 3);
  }
}

TEST(InitCommandTest, WithoutDataTheyAreGenerated) {
  const api::TrainingJob job = JobOf({.name = "first", .model = "mlp"});
  EXPECT_EQ(job.metadata.name, "first");
  EXPECT_EQ(job.spec.training->dataset.format, DatasetFormat::kSynthetic);
  EXPECT_EQ(job.spec.training->model.name, "mlp");
}

TEST(InitCommandTest, SaysWhatItDoesNotFind) {
  const TempDirectory folder;
  const auto fault = [](const InitOptions& options) {
    return std::string(NewJob(options).status().message());
  };
  EXPECT_THAT(fault({.data = folder.path()}), HasSubstr("found no file of a known name, expected"));
  EXPECT_THAT(fault({.data = folder.At("none")}),
              HasSubstr("cannot list the folder: No such file"));
  WriteTextFile(folder.At("train.csv"), "");
  WriteTextFile(folder.At("x_train.npy"), "");
  EXPECT_THAT(fault({.data = folder.path()}),
              HasSubstr("found files of the formats npy and csv, expected those of one"));
  EXPECT_THAT(fault({.name = "Not A Name"}), HasSubstr("metadata.name"));
}

// A comment must stay one line, whatever the folder is called.
TEST(InitCommandTest, AnUnusualNameIsLeftToTheReader) {
  const TempDirectory folder;
  const std::string odd = folder.At("a folder\nspec: {}");
  std::filesystem::create_directory(odd);
  WriteTextFile(odd + "/train.csv", "");
  EXPECT_THAT(NewJob({.data = odd}).value_or(""), HasSubstr("--volume data=FOLDER\n"));
}

TEST(InitCommandTest, WhatItWritesCanBePlannedAndIsNotReplaced) {
  const TempDirectory folder;
  const testing::Ended made =
      testing::RunProgram(folder.path(), {"init", "job.yaml", "--workers", "2"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "");
  const testing::Ended plan = testing::RunProgram(folder.path(), {"plan", "job.yaml"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  const testing::Ended again = testing::RunProgram(folder.path(), {"init", "job.yaml"});
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.err, "job.yaml: found a file of this name, expected none\n");
  const testing::Ended shown = testing::RunProgram(folder.path(), {"init"});
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out, HasSubstr("lockstep run FILE\n"));
}

TEST(InitCommandTest, AFileThatCannotBeWrittenWholeIsNotLeftBehind) {
  const TempDirectory folder;
  testing::Program full(folder.path(), {"init", "job.yaml"}, [] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{64, 64};  // as a disk that becomes full
    setrlimit(RLIMIT_FSIZE, &small);
  });
  const testing::Ended failed = full.Wait();
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.err, "job.yaml: cannot be written: File too large\n");
  EXPECT_FALSE(std::filesystem::exists(folder.At("job.yaml")));
  EXPECT_EQ(testing::RunProgram(folder.path(), {"init", "job.yaml"}).code, 0);
}

}  // namespace
}  // namespace lockstep::cli
