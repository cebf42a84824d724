#include "operator/local/addresses.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tests/support/builders.h"
#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

constexpr char kNowhere[] = "/nonexistent";

TEST(LockFolderTest, ItIsWhereNoOtherUserCanBeFirst) {
  const TempDirectory runtime, home;
  EXPECT_EQ(LockFolder(runtime.path().c_str(), home.path().c_str()), runtime.At("lockstep"));
  const std::string in_home = home.At(".cache/lockstep/addresses");
  EXPECT_EQ(LockFolder(nullptr, home.path().c_str()), in_home);
  EXPECT_EQ(LockFolder(kNowhere, home.path().c_str()), in_home);
  const std::string shared = fmt::format("/tmp/lockstep-{}", getuid());
  EXPECT_EQ(LockFolder(kNowhere, kNowhere), shared);
  EXPECT_EQ(LockFolder(nullptr, nullptr), shared);
}

TEST(LocalAddressesTest, ItsFolderIsMadeWithThoseAboveIt) {
  const TempDirectory home;
  const std::string folder = LockFolder(nullptr, home.path().c_str());
  for (int time = 0; time < 2; ++time) {
    const auto addresses = LocalAddresses::Open(folder, {20000, 20999});
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    EXPECT_GE((*addresses)->OfPod("x/a").port, 20000);
  }
}

// Two users, or one in two sessions, do not share the folder of the locks.
TEST(LocalAddressesTest, RunsWithoutCommonLocksHaveNoCommonAddress) {
  const TempDirectory one, other;
  const auto first = LocalAddresses::Open(one.path(), {20000, 20999});
  const auto second = LocalAddresses::Open(other.path(), {20000, 20999});
  ASSERT_TRUE(first.ok() && second.ok());
  std::set<std::string> hosts;
  for (const char* pod : {"x/a", "x/b"}) {
    hosts.insert((*first)->OfPod(pod).host);
    hosts.insert((*second)->OfPod(pod).host);
  }
  EXPECT_EQ(hosts.size(), 4U);
}

TEST(LocalAddressesTest, KnowsTheHostsOfAllReplicas) {
  const TempDirectory folder;
  const auto addresses = LocalAddresses::Open(folder.path(), {20000, 20999});
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_TRUE((*addresses)->Hosts().empty());
  const api::TrainingJob job = lockstep::testing::Job("job").Workers(2).Build();
  ASSERT_TRUE((*addresses)->ReserveAll(job).ok());
  const std::vector<std::string> hosts = (*addresses)->Hosts();
  EXPECT_EQ(std::set<std::string>(hosts.begin(), hosts.end()),
            (std::set{(*addresses)->Of(job, api::Role::kWorker, 0).host,
                      (*addresses)->Of(job, api::Role::kWorker, 1).host}));
}

TEST(LocalAddressesTest, MoreReplicasThanDescriptorsAreRefused) {
  const TempDirectory folder;
  const auto addresses = LocalAddresses::Open(folder.path(), {20000, 20999});
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  const api::TrainingJob job = lockstep::testing::Job("job").Workers(20).Build();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit few = limit;
  const Descriptor next(dup(STDERR_FILENO));  // the lowest that is free
  few.rlim_cur = static_cast<rlim_t>(next.fd()) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status refused = (*addresses)->ReserveAll(job);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE((*addresses)->ReserveAll(job).ok());
}

TEST(LocalAddressesTest, AFolderThatIsNoneIsRefused) {
  const TempDirectory home;
  WriteTextFile(home.At("file"), "");
  EXPECT_TRUE(
      absl::IsFailedPrecondition(LocalAddresses::Open(home.At("file"), {20000, 20999}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      LocalAddresses::Open(home.At("file/below"), {20000, 20999}).status()));
}

}  // namespace
}  // namespace lockstep::local
