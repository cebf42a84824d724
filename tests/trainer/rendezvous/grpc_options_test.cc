#include "trainer/rendezvous/grpc_options.h"

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

}  // namespace
}  // namespace lockstep::train
