// HTTP/1.1 over TLS to one server. The seam behind which cpprestsdk stands: nothing else includes
// it, so another library can take its place.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"

namespace lockstep::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query, percent-encoded; the server's prefix is put before it
  std::string body;    // JSON; empty: none
  std::string bearer_token;  // empty: none
  std::string accept = "application/json";
  bool may_be_silent = false;  // of a stream: silence is no sign of death
  // Of Send: a body that is longer is not read to its end. An API server sends one object of at
  // most 10 MB, and lists as long as their pages are asked for.
  std::size_t most_bytes = 32U << 20U;
};

struct HttpResponse {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after;
  std::string body;
  bool too_long = false;  // the body is longer than most_bytes: status and body are not read
};

// PEM texts. Empty ca: the system's roots; otherwise these and no others are trusted.
struct TlsMaterial {
  std::string ca, certificate, key;
};

struct HttpTransportOptions {
  std::string server;           // https://host:port[/prefix], or http://
  std::string tls_server_name;  // in place of the server's host, for SNI and verification
  bool insecure_skip_tls_verify = false;
  std::string user_agent;
  // Asked for each new connection, so that rotated files are taken up.
  std::function<absl::StatusOr<TlsMaterial>()> tls;
  Duration stream_silence = std::chrono::minutes(5);  // a stream silent for longer is dead
};

// Thread-safe. Never follows redirects and never sends a request again, but for one thing: a pooled
// connection that the server closed before it answered is replaced and the request repeated, be it
// a POST. Unavailable: no connection, or it broke, and the request may have been done;
// DeadlineExceeded: `timeout` has passed.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request, Duration timeout) = 0;

  // Hands the body of a 200 over as it comes, on this thread, and returns at its end; of another
  // status the body is returned. An error of `on_bytes` ends the stream and is returned. Cancelled
  // at once when stopped. The headers must come within `timeout`.
  virtual absl::StatusOr<HttpResponse> Stream(
      const HttpRequest& request, Duration timeout, std::stop_token stop,
      const std::function<absl::Status(std::string_view bytes)>& on_bytes) = 0;
};

// InvalidArgument: the server's address cannot be used.
absl::StatusOr<std::unique_ptr<HttpTransport>> MakeHttpTransport(HttpTransportOptions options);

}  // namespace lockstep::kube
