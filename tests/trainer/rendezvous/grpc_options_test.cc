#include "trainer/rendezvous/grpc_options.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "api/proto/rendezvous.pb.h"

namespace lockstep::train {
namespace {

TEST(StartGrpcTest, GrpcOutlivesItsLastObject) {
  StartGrpc();
  std::make_unique<grpc::CompletionQueue>()->Shutdown();
  EXPECT_TRUE(grpc_is_initialized());
}

// Anybody who can connect could fill the log with them.
TEST(StartGrpcTest, AMessageThatIsNoTextIsLoggedForDebuggingOnly) {
  StartGrpc();
  proto::Join sent;
  sent.set_incarnation("job");
  std::string bytes = sent.SerializeAsString();
  bytes.back() = '\xff';
  ::testing::internal::CaptureStderr();
  proto::Join received;
  EXPECT_FALSE(received.ParseFromString(bytes));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(StartGrpcTest, WhatEndsTheProcessIsLogged) {
  StartGrpc();
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(GOOGLE_LOG(FATAL) << "cannot go on", google::protobuf::FatalException);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("cannot go on"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
