// kube::Client over HTTPS to a real API server. cpprestsdk stays behind this header.
#pragma once

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

struct RestClientOptions {
  std::string user_agent = "lockstep";
  // Requests a second that this client allows itself, watches left out; 0: no limit of its own.
  double qps = 0;
  int burst = 0;
  // Requests under way at a time, watches left out. A busy API server serves its clients by how
  // many requests each has open, and over HTTP/1 each waits there for its turn to be read: with
  // few, a burst of jobs waits although the server has time.
  int max_in_flight = 48;
  // Of GetMetadata. Of an object that somebody else has made the answer may have 10 MB, of which
  // each byte takes three in memory, and a tenant can have one job ask for many.
  int max_metadata_reads = 4;
  Duration request_deadline = std::chrono::seconds(30);  // in all, retries after 429/503 included
  // Bytes, of which each may take thirty in memory. Tenants decide how large their objects are, so
  // a page that is longer is asked for again with half as many objects; of an event that is longer
  // only the object's identity is read.
  std::size_t longest_page = 2U << 20U;
  std::size_t longest_event = 2U << 20U;
  // The server ends a watch after this long; a stream silent for longer is taken for dead.
  Duration watch_timeout = std::chrono::minutes(4);
};

struct PodLogOptions {
  std::string container;  // empty: the only one
  bool follow = false;
  bool previous = false;
  std::optional<int> tail_lines;
};

// Thread-safe.
class RestClient : public Client {
 public:
  // Blocks until the log's end, `stop` or a failure; `on_text` gets chunks as they come.
  virtual absl::Status ReadPodLog(const Key& pod, const PodLogOptions& options,
                                  std::stop_token stop,
                                  const std::function<void(const std::string& text)>& on_text) = 0;
};

// InvalidArgument names what is wrong with the configuration. Connects at the first request.
absl::StatusOr<std::unique_ptr<RestClient>> MakeRestClient(const RestConfig& config,
                                                           const RestClientOptions& options = {});

}  // namespace lockstep::kube
