#include "operator/kube/rest/watch_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/wire_object.h"

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

// A client that may write one object must not end the watch of all others.
TEST(WatchDecoderLabelsTest, AnObjectWithTooManyLabelsEndsNoWatch) {
  WatchDecoder decoder("watch pods");
  std::string labels;
  for (int i = 0; i < 10'001; ++i)
    labels += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  const std::string large = R"({"type":"ADDED","object":{"metadata":{"name":"large","labels":{)" +
                            labels + "},\"resourceVersion\":\"1\"}}}\n";
  std::vector<std::string> versions;
  ASSERT_TRUE(
      decoder
          .Feed(large + Line("MODIFIED", "2"),
                [&](const WatchEvent& event) { versions.push_back(ResourceVersion(event.object)); })
          .ok());
  EXPECT_THAT(versions, ::testing::ElementsAre("1", "2"));
}

TEST_F(WatchDecoderTest, AnObjectWhoseManagedFieldsAreNoUtf8EndsNoWatch) {
  const std::string garbled =
      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{"
      "\"f:\xff\":{}}}],\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n";
  const absl::Status status = Feed(garbled + Line("MODIFIED", "2"));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_EQ(Name(events_[0].object), "a");
  EXPECT_EQ(ResourceVersion(events_[1].object), "2");
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

TEST_F(WatchDecoderTest, AnEventThatIsTooLongKeepsItsIdentityAndEndsNothing) {
  const std::string filler(5000, 'x');
  const std::string metadata =
      R"("metadata":{"annotations":{"name":"no","a":")" + filler +
      R"(\"}],{"},"name":"a","ownerReferences":[{"uid":"no","controller":true}],"namespace":"n",)" +
      R"("uid":"u","resourceVersion":"7","deletionTimestamp":"t","finalizers":["uid"]})";
  const std::string line = R"({"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod",)" +
                           metadata + R"(,"spec":{"metadata":{"name":"no"},"name":["no"],"x":")" +
                           filler + "\"}}}\n";
  const Object expected = Object::parse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u",
          "resourceVersion":"7","deletionTimestamp":"t"}})");
  for (std::size_t piece = 1; piece <= line.size(); piece = piece * 3 + 1) {
    WatchDecoder decoder("watch pods", 1000);
    std::vector<WatchEvent> events;
    const std::string bytes = Line("ADDED", "6") + line + Line("ADDED", "8");
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      const absl::Status status =
          decoder.Feed(std::string_view(bytes).substr(i, piece),
                       [&events](WatchEvent event) { events.push_back(std::move(event)); });
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_TRUE(decoder.Finish().ok());
    ASSERT_EQ(events.size(), 3U) << piece;
    EXPECT_EQ(events[1].type, Type::kModified);
    EXPECT_EQ(events[1].object, expected);
    EXPECT_EQ(ResourceVersion(events[2].object), "8");
  }
}

TEST_F(WatchDecoderTest, ALineThatIsTooLongAndNoEventEndsTheStream) {
  for (const std::string& line : {std::string(1001, ' '), std::string(1001, '['),
                                  "{\"type\":\"ADDED\",\"object\":\"" + std::string(1001, 'x')}) {
    WatchDecoder decoder("watch pods", 1000);
    EXPECT_TRUE(decoder.Feed(line, {}).ok());
    EXPECT_TRUE(absl::IsUnavailable(decoder.Finish()));
    EXPECT_TRUE(absl::IsUnavailable(decoder.Feed("\n", {}))) << line;
  }
}

TEST_F(WatchDecoderTest, WhatIsNestedTooDeepIsOneEventAmongOthers) {
  WatchDecoder decoder("watch trainingjobs");
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  ASSERT_TRUE(
      decoder
          .Feed(R"({"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"},)"
                R"("spec":{"kernelSize":)" +
                    deep + "}}}\n" + Line("ADDED", "2"),
                [this](WatchEvent event) { events_.push_back(std::move(event)); })
          .ok());
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_EQ(Name(events_[0].object), "a");
  EXPECT_EQ(ResourceVersion(events_[1].object), "2");
}

TEST_F(WatchDecoderTest, AStreamThatEndsWithinAnEventSaysSo) {
  const std::string line = Line("ADDED", "1");
  ASSERT_TRUE(Feed(line.substr(0, line.size() / 2)).ok());
  EXPECT_TRUE(absl::IsUnavailable(decoder_.Finish()));
}

std::string PodFrame(const std::string& type, const std::string& version) {
  wire::Pod pod;
  pod.mutable_metadata()->set_name("a");
  pod.mutable_metadata()->set_resourceversion(version);
  return testing::Frame(testing::EventOf(type, testing::Enveloped("Pod", pod)));
}

TEST(WatchDecoderFramesTest, AnyPartitionOfTheBytesGivesTheSameEvents) {
  const std::string bytes =
      PodFrame("ADDED", "1") + PodFrame("BOOKMARK", "2") + PodFrame("DELETED", "3");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    WatchDecoder decoder("watch pods");
    std::vector<std::string> versions;
    std::vector<Type> types;
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      ASSERT_TRUE(decoder
                      .Feed(std::string_view(bytes).substr(i, piece),
                            [&](const WatchEvent& event) {
                              versions.push_back(ResourceVersion(event.object));
                              types.push_back(event.type);
                            })
                      .ok());
    }
    EXPECT_THAT(versions, ::testing::ElementsAre("1", "2", "3")) << piece;
    EXPECT_THAT(types, ::testing::ElementsAre(Type::kAdded, Type::kBookmark, Type::kDeleted));
    EXPECT_TRUE(decoder.Finish().ok());
  }
}

TEST_F(WatchDecoderTest, OfAFrameThatIsTooLongOnlyTheIdentityIsRead) {
  wire::Pod pod;
  pod.mutable_metadata()->set_name("large");
  pod.mutable_metadata()->set_resourceversion("1");
  pod.mutable_spec()->set_nodename(std::string(10'000, 'n'));
  const std::string bytes =
      testing::Frame(testing::EventOf("ADDED", testing::Enveloped("Pod", pod))) +
      PodFrame("MODIFIED", "2");
  for (std::size_t i = 0; i < bytes.size(); i += 500) {
    const absl::Status status = Feed(std::string_view(bytes).substr(i, 500));
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_EQ(Name(events_[0].object), "large");
  EXPECT_EQ(ResourceVersion(events_[0].object), "1");
  EXPECT_FALSE(events_[0].object.contains("spec"));
  EXPECT_EQ(ResourceVersion(events_[1].object), "2");
}

TEST_F(WatchDecoderTest, AFrameThatBreaksOffIsAnError) {
  const std::string frame = PodFrame("ADDED", "1");
  ASSERT_TRUE(Feed(frame).ok());
  EXPECT_TRUE(decoder_.Finish().ok());
  ASSERT_TRUE(Feed(std::string_view(frame).substr(0, 2)).ok());
  EXPECT_TRUE(absl::IsUnavailable(decoder_.Finish()));
  ASSERT_TRUE(Feed(std::string_view(frame).substr(2, 9)).ok());
  EXPECT_TRUE(absl::IsUnavailable(decoder_.Finish()));
}

TEST_F(WatchDecoderTest, AnErrorInAFrameHasItsCode) {
  wire::Status gone;
  gone.set_code(410);
  gone.set_reason("Expired");
  gone.set_message("too old resource version");
  const absl::Status status =
      Feed(testing::Frame(testing::EventOf("ERROR", testing::Enveloped("Status", gone))));
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("too old resource version"));
}

TEST_F(WatchDecoderTest, AFrameThatIsNoEventIsRefused) {
  for (const std::string& event :
       {std::string(), std::string("no event"), testing::EventOf("ADDED", "no object"),
        testing::EventOf("", testing::Enveloped("Pod", wire::Pod()))}) {
    WatchDecoder decoder("watch pods");
    const absl::Status status = decoder.Feed(testing::Frame(event), [](const WatchEvent&) {});
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
}

}  // namespace
}  // namespace lockstep::kube
