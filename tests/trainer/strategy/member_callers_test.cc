#include "trainer/strategy/member_callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Duration kPatience = std::chrono::seconds(20);

Membership Of(const std::vector<std::string>& addresses) {
  Membership membership;
  for (const std::string& address : addresses) membership.members.emplace_back().address = address;
  return membership;
}

TEST(MemberCallersTest, AreTheMembersAddressesIfAllAreKnownAndOfOneFamily) {
  MemberCallers callers(kPatience);
  EXPECT_THAT(callers.Of(Of({"10.0.0.1", "10.0.0.2"})), ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(callers.Of(Of({"fd00::1", "fd00::2"})), ElementsAre("fd00::1", "fd00::2"));
  for (const auto& unknown : std::vector<std::vector<std::string>>{
           {"10.0.0.1", ""}, {"10.0.0.1", "node-7"}, {"10.0.0.1", "fd00::1"}}) {
    EXPECT_THAT(callers.Of(Of(unknown)), IsEmpty());
  }
}

TEST(MemberCallersTest, AreTrustedUntilAGroupThatHasFilteredCouldNotConnectForAWhile) {
  const Membership known = Of({"10.0.0.1", "10.0.0.2"}), unknown = Of({"10.0.0.1", ""});
  const absl::Status failed = absl::CancelledError("the generation has ended");
  MemberCallers callers(kPatience);
  callers.Of(known);
  callers.Record(absl::OkStatus(), std::chrono::hours(1));
  callers.Record(failed, kPatience - std::chrono::seconds(1));
  callers.Of(unknown);
  callers.Record(failed, kPatience);
  EXPECT_TRUE(callers.AreTrusted());
  callers.Of(known);
  callers.Record(failed, kPatience);
  EXPECT_FALSE(callers.AreTrusted());
  callers.Of(unknown);
  callers.Record(absl::OkStatus(), kPatience);
  EXPECT_FALSE(callers.AreTrusted());
  callers.Of(unknown);
  callers.Record(failed, kPatience);
  EXPECT_FALSE(callers.AreTrusted()) << "the old and the new processes of a group would not agree";
}

template <typename Array>
auto& At(Array& array, int rank) {
  return array.at(static_cast<std::size_t>(rank));
}

// The processes of a group of three whose members do not come from their addresses. Of two, the one
// with the lower address listens, so a pair fails if and only if that one filters.
class TranslatedGroup {
 public:
  explicit TranslatedGroup(const std::array<int, 3>& order) : order_(order) {
    for (int rank = 0; rank < 3; ++rank) Replace(rank);
  }
  void Replace(int rank) { At(processes_, rank).emplace(kPatience); }
  // Forms a generation. Returns whether all are connected.
  bool Connect() {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 3; ++rank) {
      const bool says_it = At(processes_, rank)->AreTrusted();
      addresses.push_back(says_it ? "10.0.0." + std::to_string(At(order_, rank)) : "");
    }
    std::array<bool, 3> filters{};
    for (int rank = 0; rank < 3; ++rank) {
      At(filters, rank) = !At(processes_, rank)->Of(Of(addresses)).empty();
    }
    bool all = true;
    for (int rank = 0; rank < 3; ++rank) {
      bool connected = true;
      for (int peer = 0; peer < 3; ++peer) {
        const int listener = At(order_, rank) < At(order_, peer) ? rank : peer;
        connected &= peer == rank || !At(filters, listener);
      }
      At(processes_, rank)
          ->Record(connected ? absl::OkStatus() : absl::UnavailableError("timed out"), kPatience);
      all &= connected;
    }
    return all;
  }

 private:
  const std::array<int, 3> order_;
  std::array<std::optional<MemberCallers>, 3> processes_;
};

TEST(MemberCallersTest, AGroupBehindAddressTranslationConnectsAgainAtOnceAfterALoss) {
  std::array<int, 3> order = {1, 2, 3};
  do {
    for (int replaced = 0; replaced < 3; ++replaced) {
      TranslatedGroup group(order);
      EXPECT_FALSE(group.Connect());
      EXPECT_TRUE(group.Connect());
      group.Replace(replaced);
      EXPECT_TRUE(group.Connect()) << "the new process is rank " << replaced;
      group.Replace((replaced + 1) % 3);
      group.Replace((replaced + 2) % 3);
      EXPECT_FALSE(group.Connect()) << "nobody is left who would know";
      EXPECT_TRUE(group.Connect());
    }
  } while (std::ranges::next_permutation(order).found);
}

}  // namespace
}  // namespace lockstep::train
