#include "trainer/rendezvous/grpc_options.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <memory>

namespace lockstep::train {
namespace {

TEST(StartGrpcTest, GrpcOutlivesItsLastObject) {
  StartGrpc();
  std::make_unique<grpc::CompletionQueue>()->Shutdown();
  EXPECT_TRUE(grpc_is_initialized());
}

}  // namespace
}  // namespace lockstep::train
