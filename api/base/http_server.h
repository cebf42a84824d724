// A few read-only pages over HTTP: probes and metrics. Whoever connects and says nothing keeps
// nobody waiting: a pod of anybody's could have the operator killed by the probe that it starves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Called on the server's thread.
using HttpPage = std::function<HttpAnswer()>;

// "HOST:PORT", "[::1]:PORT", or for all addresses, those of IPv4 included, ":PORT" or "[::]:PORT";
// InvalidArgument says what was found.
absl::Status CheckBindAddress(const std::string& address);

class HttpServer {
 public:
  // Pages by path ("/metrics"), for GET and HEAD. Port 0 picks one. Unavailable names the address
  // if it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, const std::map<std::string, HttpPage>& pages);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

}  // namespace lockstep
