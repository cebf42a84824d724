// Serves the process's gRPC connections while no thread of it is in a call.
#pragma once

#include <memory>

namespace lockstep::train {

// Keeps a thread of the process waiting for events of gRPC connections for as long as somebody
// holds the result. All holders share one thread. Thread-safe.
//
// gRPC reads a client's connections in the threads that are in calls, and has no thread of its own
// for it (its backup poll runs every 5 s). So a process that computes between blocking calls does
// not answer keepalive pings, and its peer closes the connection. Requires gRPC's default poller,
// epoll1, in which any waiting thread serves all connections of the process.
std::shared_ptr<const void> KeepPolling();

}  // namespace lockstep::train
