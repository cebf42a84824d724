// kube::Client over HTTPS for a real API server. cpprestsdk is hidden behind this header.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/client.h"
#include "operator/kube/rest/rest_config.h"

namespace lockstep::kube {

// An API server's longest answer of one object: 1.5 MB, each byte of which may take six as JSON.
// An answer to Get or GetMetadata is expected to be as long.
inline constexpr std::size_t kLongestObject = 10U << 20U;

// The longest object that etcd takes, about as long as its protobuf, or its JSON for a custom
// resource.
inline constexpr std::size_t kLongestStored = 1536U << 10U;

struct RestClientOptions {
  std::string user_agent = "lockstep";
  // The limit of requests per second; 0: no client-side limit. Watches and log streams do not
  // count, nor do the later pages of a list, because a list must not take long
  // (ReflectorOptions::page_size).
  double qps = 0;
  int burst = 0;
  // Concurrent requests, except watches and log streams. A busy API server shares its time among
  // clients by their numbers of open requests, and over HTTP/1 each request waits there until the
  // server reads it. So with too few, a burst of jobs waits although the server has time.
  int max_in_flight = 48;
  // The limit of the bytes of all answers to Get, GetMetadata and Create that are awaited or read
  // at a time; each byte takes three in memory. Tenants decide how long the answers are, and a
  // tenant can have one job ask for many. See kLongestObject.
  std::size_t most_answered = 40U << 20U;
  // The limit of the bytes of all pages that are awaited or read at a time, where each object
  // counts with the largest size that etcd accepts: the server may send a page in one piece,
  // however long it is.
  std::size_t most_listed = 64 * kLongestStored;
  // The time of one call, including retries after 429 and 5xx, but without the wait that `qps`
  // causes.
  Duration request_deadline = std::chrono::seconds(30);
  // A server that takes this long for an error is overloaded (MarkOverloaded).
  Duration slow_answer = std::chrono::seconds(1);
  // Bytes, each of which can take thirty in memory. Tenants decide how large their objects are, so
  // a longer page is requested again with half as many objects, and of a longer event only the
  // object's identity is read.
  std::size_t longest_page = 2U << 20U;
  std::size_t longest_event = 2U << 20U;
  // The server ends a watch within this time; a stream that is silent for a sixteenth longer is
  // dead.
  Duration watch_timeout = std::chrono::minutes(4);
  // The longest pause after a refused watch or log stream, whatever the server asks for: a longer
  // one would look like a healthy, silent watch.
  Duration longest_pause = std::chrono::minutes(1);
};

struct PodLogOptions {
  std::string container;  // empty: the pod's only container
  bool follow = false;
  bool previous = false;
  std::optional<int> tail_lines;
  std::optional<std::chrono::seconds> since;  // only lines that are at most this old; at least 1 s
  // Only lines of this second or later. Requires: `since` is not set.
  std::optional<Time> since_time;
  bool timestamps = false;  // each line begins with its time (RFC 3339) and a space
};

// Thread-safe.
class RestClient : public Client {
 public:
  // Blocks until the log ends or `stop` is requested (both return Ok), or until the call fails.
  // Passes chunks to `on_text` as they arrive.
  virtual absl::Status ReadPodLog(const Key& pod, const PodLogOptions& options,
                                  std::stop_token stop,
                                  const std::function<void(const std::string& text)>& on_text) = 0;
  // Returns what the pod serves at `path` of a port, over HTTP, as the API server passes it on:
  // `get` of `pods/proxy`. The pod's owner decides what that is. Internal: it has more than
  // `most_bytes`. The request is sent only once: it is repeated neither after a 401, which does not
  // renew our credentials, nor after a Retry-After. Unavailable: nobody answers there, or the
  // network does not let the API server in. DeadlineExceeded: after `timeout`.
  virtual absl::StatusOr<std::string> GetFromPod(const Key& pod, int port, const std::string& path,
                                                 std::size_t most_bytes, Duration timeout) = 0;
};

// InvalidArgument names the fault in the configuration. Connects at the first request.
absl::StatusOr<std::unique_ptr<RestClient>> MakeRestClient(const RestConfig& config,
                                                           const RestClientOptions& options = {});

}  // namespace lockstep::kube
