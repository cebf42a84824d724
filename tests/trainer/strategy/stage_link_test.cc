#include "trainer/strategy/stage_link.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/local_group.h"

namespace lockstep::train {
namespace {

constexpr int kSlots = 2;
constexpr std::size_t kBytes = 64;

struct Side {
  std::array<std::byte, kSlots * kBytes> ring{};
  std::unique_ptr<StageLink> link;
};

class StageLinkTest : public ::testing::Test {
 protected:
  StageLinkTest() {
    auto group = MakeLocalGroup(2);
    sender_.link = std::make_unique<StageLink>(std::move(group[0]), StageLink::End::kSends,
                                               sender_.ring, kSlots);
    receiver_.link = std::make_unique<StageLink>(std::move(group[1]), StageLink::End::kReceives,
                                                 receiver_.ring, kSlots);
  }
  void Expect(int messages) {
    sender_.link->Expect(messages);
    receiver_.link->Expect(messages);
  }
  void Send(int value) {
    const auto message = sender_.link->Next();
    ASSERT_TRUE(message.ok()) << message.status();
    std::memcpy(message->data(), &value, sizeof(value));
    sender_.link->Done();
  }
  int Receive() {
    const auto message = receiver_.link->Next();
    if (!message.ok()) return -1;
    int value = 0;
    std::memcpy(&value, message->data(), sizeof(value));
    receiver_.link->Done();
    return value;
  }

  Side sender_, receiver_;
};

TEST_F(StageLinkTest, MessagesArriveInOrder) {
  constexpr int kMessages = 100;
  Expect(kMessages);
  std::thread sends([&] {
    for (int i = 0; i < kMessages; ++i) Send(i);
  });
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(Receive(), i);
  sends.join();
}

// Its own slots and the other side's take messages before anybody asks for them.
TEST_F(StageLinkTest, TheSenderGoesAheadByTheSlots) {
  Expect(2 * kSlots);
  for (int i = 0; i < 2 * kSlots; ++i) Send(i);
  for (int i = 0; i < 2 * kSlots; ++i) EXPECT_EQ(Receive(), i);
}

// Its messages are always there.
class Counted final : public Communicator {
 public:
  explicit Counted(std::atomic<int>& broadcasts) : broadcasts_(broadcasts) {}
  int rank() const override { return 1; }
  int size() const override { return 2; }
  std::string Name() const override { return "counted"; }
  absl::Status AllReduceSum(std::span<float>) override { return absl::OkStatus(); }
  absl::Status Broadcast(std::span<std::byte>, int) override {
    ++broadcasts_;
    return absl::OkStatus();
  }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort() override {}

 private:
  std::atomic<int>& broadcasts_;
};

// So nothing waits for a neighbour that has no step to do.
TEST(StageLinkOfOneSideTest, WhatIsNotExpectedIsNotWaitedFor) {
  std::atomic<int> broadcasts = 0;
  std::array<std::byte, kSlots * kBytes> ring{};
  {
    StageLink link(std::make_unique<Counted>(broadcasts), StageLink::End::kReceives, ring, kSlots);
    for (int i = 0; i < 20; ++i) {
      link.Expect(1);
      EXPECT_TRUE(link.Next().ok());
      link.Done();
    }
  }
  EXPECT_EQ(broadcasts, 20);
}

TEST_F(StageLinkTest, ANeighbourThatLeavesEndsTheWait) {
  Expect(1);
  std::thread leaves([&] { sender_.link.reset(); });
  EXPECT_FALSE(receiver_.link->Next().ok());
  leaves.join();
}

TEST_F(StageLinkTest, ASenderIsNotHeldByAReceiverThatLeaves) {
  Expect(3 * kSlots);
  receiver_.link.reset();
  absl::Status status;
  for (int i = 0; i < 3 * kSlots && status.ok(); ++i) {
    const auto message = sender_.link->Next();
    status = message.status();
    if (status.ok()) sender_.link->Done();
  }
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace lockstep::train
