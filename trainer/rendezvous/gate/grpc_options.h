// gRPC options for both ends: a lost peer is detected within 5 s, a new one found at once.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "base/descriptor.h"

namespace lockstep::train {

// Bytes. The largest answer of a rendezvous is 2 MiB of the store's values, with their framing.
inline constexpr int kLargestMessageFromLeader = 4 << 20;

// Returns options for a channel that shares nothing with earlier ones, so that neither their
// back-off (up to 120 s in gRPC) nor their resolved addresses (kept for 30 s) affect it. It takes
// no message of more than `largest_answer` bytes, and no compressed one: a stranger may have the
// address that it connects to.
grpc::ChannelArguments ChannelOptions(int largest_answer = kLargestMessageFromLeader);

void SetServerOptions(grpc::ServerBuilder& builder);

// A server whose connections come from a gate: it listens nowhere itself.
using SocketAcceptor = grpc::experimental::ExternalConnectionAcceptor;
std::unique_ptr<SocketAcceptor> AcceptSockets(grpc::ServerBuilder& builder);
// Gives the server the connection to a caller. Requires: the server has started. Thread-safe.
void HandOver(Descriptor caller, SocketAcceptor& acceptor);

// Starts gRPC for the rest of the process's life, and routes its log lines to our log, at debug
// level. Idempotent. Otherwise gRPC shuts down when its last object is destroyed, and that
// can wait up to 10 s for its own polling thread.
void StartGrpc();

}  // namespace lockstep::train
