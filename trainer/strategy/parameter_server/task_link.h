// A worker's connection to server 0, which gives out the tasks.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/strategy/parameter_server/caller.h"

namespace lockstep::train {

// Not thread-safe.
class TaskLink {
 public:
  // `address`: of server 0.
  TaskLink(std::string address, Caller caller);
  ~TaskLink();

  // Connects unless it is connected; a connection whose other end is gone is none, though nothing
  // was said on it since. Unavailable: the connection is broken or cannot be made.
  // Aborted: a later process has this one's place. InvalidArgument: the run refuses this process
  // for good. PermissionDenied: the server at this address refuses it. A stop ends the call at
  // once, with Unavailable.
  absl::Status Connect(const std::stop_token& stop = {});
  // Sends a report and returns the answer. Errors: as for Connect, which has to be called before
  // the report is repeated.
  absl::StatusOr<proto::TaskReply> Next(const proto::Next& next);

 private:
  struct Stream;
  absl::Status End(bool is_open = false);

  const std::string address_;
  const Caller caller_;
  const std::shared_ptr<const void> poll_;  // while this process computes
  std::unique_ptr<Stream> stream_;
};

}  // namespace lockstep::train
