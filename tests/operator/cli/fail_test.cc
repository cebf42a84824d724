#include "operator/cli/fail.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

// Names and messages of objects are written by others, who may try to set the terminal's title.
const absl::Status kCommand = absl::InvalidArgumentError("a \x1b]0;yours\x07 b");

TEST(FailTest, PrintsTheMessageWithoutControlCharacters) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Fail(kExitUsage, kCommand), kExitUsage);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a ?]0;yours? b\n");
}

TEST(FailTest, AnExceptionMayQuoteOthersToo) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(FailInternally(std::runtime_error("a \x1b]0;yours\x07 b")), kExitInternalError);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "lockstep: internal error: a ?]0;yours? b\n");
}

TEST(FailTest, SaysThatAClusterHasNoTrainingJobsRatherThanNotThisOne) {
  const auto said = [](const absl::Status& status) {
    ::testing::internal::CaptureStderr();
    FailOnCluster(kExitNoAnswer, status);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string unknown = "found a cluster that knows no training.lockstep.dev/v1 TrainingJob";
  EXPECT_THAT(said(absl::NotFoundError("list trainingjobs n: 404 page not found (404)")),
              HasSubstr(unknown));
  EXPECT_THAT(said(absl::NotFoundError("get trainingjobs n/j: the server could not find the "
                                       "requested resource (404 NotFound)")),
              HasSubstr(unknown));
  for (const char* of_an_object :
       {"trainingjobs \"j\" not found",
        // The node of the pod has not heard of it yet.
        "read the log of pods n/j-worker-0: the server could not find the requested resource ( "
        "pods/log j-worker-0) (404 NotFound)"}) {
    EXPECT_EQ(said(absl::NotFoundError(of_an_object)), fmt::format("lockstep: {}\n", of_an_object));
  }
}

TEST(FailTest, NamesTheProgramInErrorsOfACluster) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(FailOnCluster(kExitNoAnswer, kCommand), kExitNoAnswer);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "lockstep: a ?]0;yours? b\n");
}

}  // namespace
}  // namespace lockstep::cli
