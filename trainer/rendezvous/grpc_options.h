// How gRPC is set up on both ends: a lost peer is seen within 5 s, a new one found at once.
#pragma once

#include <grpcpp/grpcpp.h>

namespace lockstep::train {

// For one connection attempt: shares nothing with earlier channels, so neither their back-off
// (gRPC's reaches 120 s) nor their resolved addresses (kept for 30 s) outlive them.
grpc::ChannelArguments ChannelOptions();

void SetServerOptions(grpc::ServerBuilder& builder);

// gRPC's own lines become debug records of ours. Idempotent.
void RouteGrpcLog();

}  // namespace lockstep::train
