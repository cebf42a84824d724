// An HTTPS server on a loopback port that answers by what a client's certificate says, and the
// certificates for it.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/loopback_server.h"

namespace lockstep::testing {

// PEM: a self-signed certificate and its key.
struct Identity {
  std::string certificate, key;
};
Identity MakeIdentity(const std::string& name);

class CertificateServer {
 public:
  // `status_for` returns the status of a request by the name in the certificate that the client
  // showed when it connected; empty: none. Called on the connections' threads.
  explicit CertificateServer(std::function<int(const std::string& name)> status_for);
  CertificateServer(const CertificateServer&) = delete;
  CertificateServer& operator=(const CertificateServer&) = delete;

  std::string url() const;  // https://127.0.0.1:port
  // The names of all requests so far, in order.
  std::vector<std::string> names() const;
  int connections() const { return server_.connections(); }

 private:
  void Serve(int socket);

  const std::function<int(const std::string& name)> status_for_;
  const Identity own_ = MakeIdentity("server");
  mutable std::mutex mutex_;
  std::vector<std::string> names_;  // guarded by mutex_
  LoopbackServer server_;           // last, so that its threads end before what they use
};

}  // namespace lockstep::testing
