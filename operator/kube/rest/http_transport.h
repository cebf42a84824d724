// HTTP/1.1 over TLS to one server. Hides cpprestsdk: only the implementation includes it, so
// another library can replace it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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
  std::string target;        // path and query, percent-encoded; appended to the server's prefix
  std::string body;          // JSON; empty: none
  std::string bearer_token;  // empty: none
  std::string accept = "application/json";
  bool may_be_silent = false;  // for streams: silence does not mean a dead peer
  // The number of our client certificate, which a server knows a connection by. From the first
  // request with a higher number on, requests use no connection that was opened before it.
  std::uint64_t certificate = 0;
  // For Send: a longer body is not read to its end. An API server sends an object of at most 10 MB,
  // and lists as long as the requested pages.
  std::size_t most_bytes = 32U << 20U;
  // For Send: the caller reads only errors. The first kLongestUnwanted bytes of the body are kept,
  // the rest is discarded as it arrives, however long it is.
  bool wants_body = true;
};

inline constexpr std::size_t kLongestUnwanted = 64U << 10U;

struct HttpResponse {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after;
  std::string body;
  bool too_long = false;  // the body exceeds most_bytes; status and body are not valid
};

// PEM texts. If `ca` is empty, the system's roots are trusted; otherwise only `ca` is.
struct TlsMaterial {
  std::string ca, certificate, key;
};

struct HttpTransportOptions {
  std::string server;           // https://host:port[/prefix], or http://
  std::string tls_server_name;  // replaces the server's host for SNI and verification
  bool insecure_skip_tls_verify = false;
  std::string user_agent;
  // Called for each new connection, so that rotated files take effect.
  std::function<absl::StatusOr<TlsMaterial>()> tls;
  Duration stream_silence = std::chrono::minutes(5);  // a stream that is silent for longer is dead
};

// Thread-safe. Never follows redirects, and resends a request in one case only: if the server
// closed a pooled connection before it answered, the request, even a POST, is repeated on a new
// one. Unavailable: there is no connection, or it broke and the request may have been executed.
// DeadlineExceeded: `timeout` has passed.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request, Duration timeout) = 0;

  // Passes the body of a 200 to `on_bytes` as it arrives, on the calling thread, and returns at its
  // end; returns the first kLongestUnwanted bytes of any other status' body. An error from
  // `on_bytes` ends the stream and is returned. Returns Cancelled at once if stopped. The headers
  // must arrive within `timeout`. Errors after those of a 200 have the mark of stream_end.h.
  virtual absl::StatusOr<HttpResponse> Stream(
      const HttpRequest& request, Duration timeout, std::stop_token stop,
      const std::function<absl::Status(std::string_view bytes)>& on_bytes) = 0;
};

// InvalidArgument: the server's address is unusable.
absl::StatusOr<std::unique_ptr<HttpTransport>> MakeHttpTransport(HttpTransportOptions options);

}  // namespace lockstep::kube
