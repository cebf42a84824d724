#include "trainer/data/file_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(DataFileErrorTest, CodeTellsTransientFromPermanentErrors) {
  for (const int error : {EACCES, EPERM}) {
    const absl::Status denied = DataFileError(error, "open", "a.csv");
    EXPECT_TRUE(absl::IsDataLoss(denied)) << denied;  // exit code 11: bad data
    EXPECT_THAT(std::string(denied.message()), HasSubstr("a.csv: cannot open: "));
  }
  EXPECT_TRUE(absl::IsNotFound(DataFileError(ENOENT, "open", "a.csv")));
  for (const int error : {EIO, ESTALE, ETIMEDOUT, EAGAIN, ENOMEM, EMFILE, ENFILE, EINTR, EHOSTDOWN,
                          EHOSTUNREACH, ENOTCONN, ECONNRESET, EREMOTEIO}) {
    EXPECT_TRUE(absl::IsUnavailable(DataFileError(error, "open", "a.csv"))) << error;
  }
  for (const int error : {ELOOP, ENXIO, ENODEV, ENAMETOOLONG, EINVAL, EISDIR, EOVERFLOW}) {
    EXPECT_TRUE(absl::IsDataLoss(DataFileError(error, "open", "a.csv"))) << error;
  }
}

}  // namespace
}  // namespace lockstep::train
