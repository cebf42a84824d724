// A few read-only pages over HTTP: probes and metrics. Whoever connects and says nothing keeps
// nobody waiting: a pod of anybody's could have the operator killed by the probe that it starves.
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
  // For this long all callers get the same copy, and the page is not asked again: for pages that
  // cost more than a moment, since anybody may call as often as they like.
  Duration fresh_for{};
};

// Called on the server's thread.
using HttpPage = std::function<HttpAnswer()>;

class HttpServer {
 public:
  // Pages by path ("/metrics"), for GET and HEAD, at an address as CheckBindAddress takes it. Port
  // 0 picks one. Unavailable names the address
  // if it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, const std::map<std::string, HttpPage>& pages);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

}  // namespace lockstep
