// A gRPC server whose callers pass a ConnectionGate.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/rendezvous/gate/connection_gate.h"
#include "trainer/rendezvous/gate/grpc_options.h"

namespace lockstep::train {

// Thread-safe, apart from Start and Stop.
class GatedServer {
 public:
  GatedServer() = default;
  ~GatedServer() { Stop(); }
  GatedServer(const GatedServer&) = delete;
  GatedServer& operator=(const GatedServer&) = delete;

  // Starts to serve at `address`, which is host:port; port 0 picks a free one. The gate has places
  // for `members`, until SetMembers. The services must outlive the server, or its Stop. Unavailable
  // names the address and the reason.
  absl::Status Start(const std::string& address, std::size_t members, const Clock& clock,
                     std::initializer_list<grpc::Service*> services);
  // Accepts no more callers, cancels the calls that are still open, and waits for their handlers.
  void Stop();
  // Requires: started.
  int port() const { return gate_->port(); }
  void SetMembers(std::size_t members) { gate_->SetMembers(members); }
  // See ConnectionGate::Prove. Services may call it as soon as they are called.
  void Prove(const std::string& peer) { gate_->Prove(peer); }

 private:
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<SocketAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace lockstep::train
