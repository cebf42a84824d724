#include "operator/kube/watch_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using ::testing::HasSubstr;
using Type = WatchEvent::Type;

std::string Line(const std::string& type, const std::string& version) {
  return R"({"type":")" + type + R"(","object":{"kind":"Pod","metadata":{"name":"a",)" +
         R"("resourceVersion":")" + version + "\"}}}\n";
}

class WatchDecoderTest : public ::testing::Test {
 protected:
  absl::Status Feed(std::string_view bytes) {
    return decoder_.Feed(bytes, [this](WatchEvent event) { events_.push_back(std::move(event)); });
  }
  WatchDecoder decoder_{"watch pods", 1000};
  std::vector<WatchEvent> events_;
};

TEST_F(WatchDecoderTest, SeveralEventsInOnePieceComeInOrder) {
  ASSERT_TRUE(Feed(Line("ADDED", "1") + Line("MODIFIED", "2") + Line("DELETED", "3") +
                   Line("BOOKMARK", "4"))
                  .ok());
  ASSERT_EQ(events_.size(), 4U);
  EXPECT_EQ(events_[0].type, Type::kAdded);
  EXPECT_EQ(events_[1].type, Type::kModified);
  EXPECT_EQ(events_[2].type, Type::kDeleted);
  EXPECT_EQ(events_[3].type, Type::kBookmark);
  EXPECT_EQ(ResourceVersion(events_[3].object), "4");
  EXPECT_TRUE(decoder_.Finish().ok());
}

TEST_F(WatchDecoderTest, AnyPartitionOfTheBytesGivesTheSameEvents) {
  const std::string bytes = Line("ADDED", "1") + "\r\n" + Line("MODIFIED", "2");
  for (std::size_t piece = 1; piece < bytes.size(); ++piece) {
    WatchDecoder decoder("watch pods");
    std::vector<std::string> versions;
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      ASSERT_TRUE(decoder
                      .Feed(std::string_view(bytes).substr(i, piece),
                            [&](const WatchEvent& event) {
                              versions.push_back(ResourceVersion(event.object));
                            })
                      .ok());
    }
    EXPECT_THAT(versions, ::testing::ElementsAre("1", "2")) << piece;
    EXPECT_TRUE(decoder.Finish().ok());
  }
}

TEST_F(WatchDecoderTest, AForgottenVersionIsOutOfRange) {
  const absl::Status status = Feed(
      Line("ADDED", "1") +
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})"
      "\n");
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("watch pods: too old (410 Expired)"));
  EXPECT_EQ(events_.size(), 1U);
}

TEST_F(WatchDecoderTest, AnotherErrorEventHasItsCode) {
  const absl::Status status =
      Feed(R"({"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd is away"}})"
           "\n");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(WatchDecoderTest, AnUnknownTypeIsPassedOver) {
  ASSERT_TRUE(Feed(Line("SHOUTED", "1") + Line("ADDED", "2")).ok());
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_EQ(ResourceVersion(events_[0].object), "2");
}

TEST_F(WatchDecoderTest, WhatIsNoEventEndsTheStream) {
  for (const char* line :
       {"{\n", "[]\n", "7\n", "{\"type\":\"ADDED\"}\n", "{\"type\":3,\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":[]}\n", "{\"type\":\"ADDED\",\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":5}}}\n", "\xff\xfe\n"}) {
    const absl::Status status = Feed(line);
    EXPECT_TRUE(absl::IsUnavailable(status)) << line << status;
  }
  EXPECT_TRUE(events_.empty());
}

TEST_F(WatchDecoderTest, ALineHasALimitBeItFinishedOrNot) {
  EXPECT_TRUE(Feed(std::string(1000, ' ')).ok());
  EXPECT_TRUE(absl::IsUnavailable(Feed(" ")));
  WatchDecoder whole("watch pods", 10);
  EXPECT_TRUE(absl::IsUnavailable(whole.Feed(Line("ADDED", "1"), [](const WatchEvent&) {})));
}

TEST_F(WatchDecoderTest, AStreamThatEndsWithinAnEventSaysSo) {
  const std::string line = Line("ADDED", "1");
  ASSERT_TRUE(Feed(line.substr(0, line.size() / 2)).ok());
  EXPECT_TRUE(absl::IsUnavailable(decoder_.Finish()));
}

}  // namespace
}  // namespace lockstep::kube
