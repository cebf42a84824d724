// Serves a few read-only pages over HTTP: probes and metrics. An idle connection delays no other
// caller: otherwise any pod could have the operator killed by starving its probe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/listener.h"

namespace lockstep {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  // For this long all callers get the same copy, and the page is not called again. For pages that
  // are costly, since anybody may call as often as they like.
  Duration fresh_for{};
};

// Called on the server's thread, so it must be short.
using HttpPage = std::function<HttpAnswer()>;

class HttpServer {
 public:
  // Starts a server for `pages` by path ("/metrics"), for GET and HEAD. Port 0 picks a port.
  // Returns InvalidArgument for an `address` that CheckBindAddress rejects, or Unavailable, naming
  // the address, if it cannot listen there.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, const std::map<std::string, HttpPage>& pages);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

}  // namespace lockstep
