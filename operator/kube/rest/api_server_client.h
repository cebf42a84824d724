// The client's class. rest_client.cc has how requests are sent, api_server_objects.cc those of one
// object, and api_server_streams.cc lists and what goes on until it is stopped.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/rest/credentials.h"
#include "operator/kube/rest/http_transport.h"
#include "operator/kube/rest/request_limiter.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::kube {

class ApiServerClient final : public RestClient {
 public:
  ApiServerClient(RestConfig config, const RestClientOptions& options)
      : options_(options),
        server_(config.server),
        credentials_(std::move(config), clock_),
        limiter_(options.qps, options.burst, options.max_in_flight),
        answers_(options.most_answered),
        pages_(options.most_listed) {}

  absl::Status Connect(const RestConfig& config);

  absl::StatusOr<Object> Get(const Kind& kind, const Key& key) override;
  absl::StatusOr<Object> GetMetadata(const Kind& kind, const Key& key) override;
  absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) override;
  absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event) override;
  absl::StatusOr<Object> Create(const Kind& kind, const Object& object) override;
  absl::StatusOr<Object> Update(const Kind& kind, const Object& object) override;
  absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) override;
  absl::Status Delete(const Kind& kind, const Key& key, const Preconditions& expected) override;
  absl::Status ForceDelete(const Kind& kind, const Key& key,
                           const Preconditions& expected) override;
  absl::Status ReadPodLog(const Key& pod, const PodLogOptions& options, std::stop_token stop,
                          const std::function<void(const std::string& text)>& on_text) override;
  absl::StatusOr<std::string> GetFromPod(const Key& pod, int port, const std::string& path,
                                         std::size_t most_bytes, Duration timeout) override;

 private:
  static absl::Status Annotate(const std::string& what, const absl::Status& status);
  // Returns the error of a successful answer that is not what an API server sends, but a proxy's
  // page for logging in, say.
  absl::Status Refuse(const std::string& what, const absl::Status& answer) const;
  absl::Status DeleteWith(const Object& options, const Kind& kind, const Key& key);
  absl::StatusOr<Object> Put(const char* verb, const Kind& kind, const Object& object,
                             const char* subresource);
  absl::StatusOr<Object> CallForObject(const std::string& what, HttpRequest request,
                                       const FieldMask* keep = nullptr);
  absl::StatusOr<Object> CallForMetadata(const std::string& what, HttpRequest request);

  // Returns a successful response, or one that is too long to read. Waits for the rate limit, and
  // waits and retries if the server asks for it.
  absl::StatusOr<HttpResponse> Call(const std::string& what, HttpRequest request);
  // The same outside the rate limit, and until `deadline`.
  absl::StatusOr<HttpResponse> CallAtOnce(const std::string& what, HttpRequest request,
                                          SteadyTime deadline);
  // Sends a request that the server passes on to a program of somebody else. Sends it once, and
  // keeps our credentials, whatever the answer is.
  absl::StatusOr<HttpResponse> CallThrough(const std::string& what, HttpRequest request,
                                           Duration timeout);
  struct ListAnswer {
    Object list;
    std::size_t bytes = 0;
  };
  // Returns nullopt if the page is too long to read. Unavailable: not sent, because its time
  // was over while it waited for pages of others, which says nothing about this page's size.
  absl::StatusOr<std::optional<ListAnswer>> ReadPage(const std::string& what, const Kind& kind,
                                                     const ListOptions& options);
  // Returns a page of as many objects as can be read; sets `options` to what was asked for last.
  absl::StatusOr<ListAnswer> ReadPageThatFits(const std::string& what, const Kind& kind,
                                              ListOptions& options);
  // Adds the time that the server took to `waited`.
  absl::StatusOr<HttpResponse> SendOnce(HttpRequest& request, SteadyTime deadline,
                                        Duration& waited);
  // Returns Ok at the end of a 200's body.
  absl::Status StreamTo(const std::string& what, HttpRequest request, const std::stop_token& stop,
                        const std::function<absl::Status(std::string_view)>& on_bytes);

  const SystemClock clock_;
  const RestClientOptions options_;
  const std::string server_;
  Credentials credentials_;
  RequestLimiter limiter_;
  ByteBudget answers_, pages_;
  std::unique_ptr<HttpTransport> transport_;  // its callbacks use credentials_
};

}  // namespace lockstep::kube
