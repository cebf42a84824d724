#include "trainer/core/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(SharedLibraryTest, OpensTheFirstThatIsThere) {
  const auto library =
      SharedLibrary::Open({"libnowhere.so.1", "libm.so.6"}, "a library of numbers");
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->name(), "libm.so.6");
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->Load(cosine, "cos").ok());
  EXPECT_EQ(cosine(0), 1);
}

TEST(SharedLibraryTest, SaysWhatIsMissingAndWhatWasTried) {
  const absl::Status missing = SharedLibrary::Open({"libnowhere.so.1"}, "a library").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("a library was not found: libnowhere.so.1"));
  const auto library = SharedLibrary::Open({"libm.so.6"}, "a library");
  void (*function)() = nullptr;
  EXPECT_EQ(library->Load(function, "nothing"),
            absl::NotFoundError("libm.so.6 has no function nothing: it is too old"));
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace lockstep::train
