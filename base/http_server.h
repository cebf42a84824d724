// Serves a few read-only pages over HTTP, probes and metrics, or takes short reports, or lets a
// function answer what is read. An idle connection delays no other caller: otherwise any pod could
// have the operator killed by starving its probe.
#pragma once

#include <cstddef>
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
  std::string headers = {};  // further ones, each ended by "\r\n"
  // For this long all callers get the same copy, and the page is not called again. For pages that
  // are costly, since anybody may call as often as they like.
  Duration fresh_for{};
};

// Called on the server's thread, so it must be short.
using HttpPage = std::function<HttpAnswer()>;

struct HttpPost {
  std::string path, authorization, body;
};

// Takes what is posted at paths that begin with `prefix`.
struct HttpIntake {
  std::string prefix;
  std::size_t most_bytes = 0;  // of a body; a longer one is refused unread
  // Called on the server's thread, like a page.
  std::function<HttpAnswer(const HttpPost&)> take;
  // Called there, too, when posts may have been lost for lack of room: more connections have come
  // than the server holds, of one peer or in total, or than may wait for it. May be empty.
  std::function<void()> on_loss;
};

// What a GET or a HEAD asks for. All texts are the caller's, as they were sent.
struct HttpGet {
  std::string path, query;  // "/log", "job=mnist"; nothing is decoded
  std::string host, authorization;
};

// Called on the server's thread, like a page.
using HttpResponder = std::function<HttpAnswer(const HttpGet&)>;

class HttpServer {
 public:
  // Starts a server for `pages` by path ("/metrics"), for GET and HEAD, and for what is posted if
  // there is an `intake`. Port 0 picks a port. A body needs a Content-Length.
  // Returns InvalidArgument for an `address` that CheckBindAddress rejects, or Unavailable, naming
  // the address, if it cannot listen there.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, const std::map<std::string, HttpPage>& pages,
      HttpIntake intake = {});
  // Starts a server whose `responder` answers each GET and HEAD, of any path. Errors as above.
  static absl::StatusOr<std::unique_ptr<HttpServer>> StartWith(const std::string& address,
                                                               HttpResponder responder);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

}  // namespace lockstep
