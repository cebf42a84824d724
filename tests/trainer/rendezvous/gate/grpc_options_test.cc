#include "trainer/rendezvous/gate/grpc_options.h"

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "api/proto/rendezvous.pb.h"

namespace lockstep::train {
namespace {

TEST(StartGrpcTest, GrpcOutlivesItsLastObject) {
  StartGrpc();
  std::make_unique<grpc::CompletionQueue>()->Shutdown();
  EXPECT_TRUE(grpc_is_initialized());
}

// gRPC would take it for an error of connect(). Two threads must wait: absl looks for the
// processor's frequency when one queues behind another.
TEST(StartGrpcTest, AThreadThatQueuesForAMutexKeepsErrno) {
  StartGrpc();
  absl::Mutex mutex;
  bool is_waiting = false, is_done = false;  // guarded by mutex
  std::jthread first([&] {
    const absl::MutexLock lock(&mutex);
    is_waiting = true;
    mutex.Await(absl::Condition(&is_done));
  });
  mutex.LockWhen(absl::Condition(&is_waiting));
  std::jthread last([&] {
    const absl::MutexLock lock(&mutex);
    is_done = true;
  });
  errno = 0;
  mutex.Await(absl::Condition(&is_done));
  const int left = errno;
  mutex.Unlock();
  EXPECT_NE(left, ENOENT);
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
