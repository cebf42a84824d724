#include <gtest/gtest.h>

#include "base/check.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/backend.h"

namespace lockstep::train {
namespace {

TEST(MakeBackendTest, GivesTheBackendOfThatName) {
  for (const std::string name : {"reference", "cpu", "async-reference", "cuda"}) {
    EXPECT_EQ(MakeBackend({.name = name})->Name(), name);
  }
}

TEST(MakeBackendTest, AnUnknownNameIsABrokenInvariant) {
  EXPECT_THROW(MakeBackend({.name = "abacus"}), CheckFailure);
}

TEST(MakeBackendTest, NoThreadsIsABrokenInvariant) {
  EXPECT_THROW(MakeBackend({.name = "reference", .threads = 0}), CheckFailure);
}

}  // namespace
}  // namespace lockstep::train
