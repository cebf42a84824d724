#include "operator/kube/rest/rest_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/kube/rest/api_errors.h"
#include "operator/kube/rest/credentials.h"
#include "operator/kube/rest/http_transport.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/request_limiter.h"
#include "operator/kube/rest/resource_path.h"
#include "operator/kube/rest/watch_decoder.h"

namespace lockstep::kube {
namespace {

constexpr int kMostRetries = 10;  // per call, when the server asks for a retry

// Asks for metadata only, if the server supports that: a pod's spec can have 1.5 MB, and many pods
// may be created at a time.
constexpr char kAcceptMetadata[] =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json;q=0.9";
// Asks for the line that `kubectl get` prints, without the object: the object's version and a few
// KB of text. Metadata that others write can have 9 MB as JSON.
constexpr char kAcceptLine[] =
    "application/json;as=Table;g=meta.k8s.io;v=v1, application/json;q=0.9";
constexpr char kWithoutObject[] = "?includeObject=None";
// The server answers a create with what was sent, of which each byte may take six as JSON, and with
// the names of the fields, which it adds.
constexpr std::size_t kAnsweredPerByteSent = 8;

// The longest pause between two tries of a watch, whatever the server asks for: a longer one would
// look like a healthy, silent watch.
constexpr Duration kLongestPause = std::chrono::minutes(1);

// For servers that send the whole object.
const FieldMask& MetadataAlone() {
  static const FieldMask mask = {"metadata"};
  return mask;
}

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

// The server ends a watch within `limit`. The jitter keeps a client's watches from ending together.
int WatchSeconds(Duration limit) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const double share = std::uniform_real_distribution<double>(0.8, 1.0)(random);
  const double seconds = std::chrono::duration<double>(limit).count() * share;
  return std::max(1, static_cast<int>(seconds));
}

absl::Status Annotate(const std::string& what, const absl::Status& status) {
  return {status.code(), fmt::format("{}: {}", what, std::string(status.message()))};
}

// The server may have executed a request that it did not answer.
bool BrokeOff(const absl::StatusOr<HttpResponse>& response) {
  return absl::IsUnavailable(response.status());
}

void WaitOrStop(Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, duration, [] { return false; });
}

class ApiServerClient final : public RestClient {
 public:
  ApiServerClient(RestConfig config, const RestClientOptions& options)
      : options_(options),
        credentials_(std::move(config), clock_),
        limiter_(options.qps, options.burst, options.max_in_flight),
        answers_(options.most_answered) {}

  absl::Status Connect(const RestConfig& config) {
    HttpTransportOptions transport;
    transport.server = config.server;
    transport.tls_server_name = config.tls_server_name;
    transport.insecure_skip_tls_verify = config.insecure_skip_tls_verify;
    transport.user_agent = options_.user_agent;
    if (config.server.starts_with("https")) transport.tls = [this] { return credentials_.Tls(); };
    // The server ends the stream within watch_timeout; a sixteenth allows for delays.
    transport.stream_silence = options_.watch_timeout + options_.watch_timeout / 16;
    LOCKSTEP_ASSIGN_OR_RETURN(transport_, MakeHttpTransport(std::move(transport)));
    return absl::OkStatus();
  }

  absl::StatusOr<Object> Get(const Kind& kind, const Key& key) override {
    LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, key));
    const ByteBudget::Share share(answers_, kLongestObject);  // held until the answer is parsed
    return CallForObject(Describe("get", kind, key), {"GET", ObjectPath(kind, key)});
  }
  absl::StatusOr<Object> GetMetadata(const Kind& kind, const Key& key) override {
    LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, key));
    const ByteBudget::Share share(answers_, kLongestObject);
    return CallForMetadata(Describe("get", kind, key), {"GET", ObjectPath(kind, key)});
  }

  absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) override;
  absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event) override;

  absl::StatusOr<Object> Create(const Kind& kind, const Object& object) override {
    const std::string what = Describe("create", kind, KeyOf(object));
    if (kind.namespaced && Namespace(object).empty()) {
      return absl::InvalidArgumentError(what + ": metadata.namespace is empty");
    }
    HttpRequest request{"POST", CollectionPath(kind, Namespace(object)), object.dump()};
    const ByteBudget::Share share(answers_, kAnsweredPerByteSent * request.body.size());
    return CallForMetadata(what, std::move(request));
  }

  absl::StatusOr<Object> Update(const Kind& kind, const Object& object) override {
    return Put("update", kind, object, "");
  }
  absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) override {
    return Put("update status of", kind, object, "/status");
  }

  absl::Status Delete(const Kind& kind, const Key& key, const std::string& uid) override {
    return DeleteWith(DeleteOptions(uid), kind, key);
  }
  absl::Status ForceDelete(const Kind& kind, const Key& key, const std::string& uid) override {
    Object options = DeleteOptions(uid);
    options["gracePeriodSeconds"] = 0;
    return DeleteWith(options, kind, key);
  }

  absl::Status ReadPodLog(const Key& pod, const PodLogOptions& options, std::stop_token stop,
                          const std::function<void(const std::string& text)>& on_text) override;

 private:
  static Object DeleteOptions(const std::string& uid) {
    Object options = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    // The garbage collector deletes dependents in the background; otherwise batch/v1 Jobs would
    // keep their pods.
    options["propagationPolicy"] = "Background";
    if (!uid.empty()) options["preconditions"] = {{"uid", uid}};
    return options;
  }
  absl::Status DeleteWith(const Object& options, const Kind& kind, const Key& key) {
    LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, key));
    HttpRequest request{"DELETE", ObjectPath(kind, key) + kWithoutObject, options.dump()};
    request.accept = kAcceptLine;
    request.wants_body = false;
    return Call(Describe("delete", kind, key), std::move(request)).status();
  }

  absl::StatusOr<Object> Put(const char* verb, const Kind& kind, const Object& object,
                             const char* subresource) {
    LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, KeyOf(object)));
    const std::string what = Describe(verb, kind, KeyOf(object));
    if (ResourceVersion(object).empty()) {  // without it the server would overwrite unseen changes
      return absl::InvalidArgumentError(what + ": metadata.resourceVersion must be set");
    }
    HttpRequest request{"PUT", ObjectPath(kind, KeyOf(object)) + subresource + kWithoutObject,
                        object.dump()};
    request.accept = kAcceptLine;
    LOCKSTEP_ASSIGN_OR_RETURN(const Object answer,
                              CallForObject(what, std::move(request), "", &MetadataAlone()));
    Object written = {{"metadata", object.at("metadata")}};
    written["metadata"]["resourceVersion"] = ResourceVersion(answer);
    return written;
  }

  absl::StatusOr<Object> CallForObject(const std::string& what, HttpRequest request,
                                       std::string_view under = "",
                                       const FieldMask* keep = nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const HttpResponse answer, Call(what, std::move(request)));
    if (answer.too_long) return absl::InternalError(what + ": the answer is too long to be read");
    absl::StatusOr<Object> object = ParseObject(answer.body, under, keep);
    if (!object.ok()) return absl::InternalError(Annotate(what, object.status()).message());
    return object;
  }

  absl::StatusOr<Object> CallForMetadata(const std::string& what, HttpRequest request) {
    request.accept = kAcceptMetadata;
    return CallForObject(what, std::move(request), "", &MetadataAlone());
  }

  // Returns a successful response, or one that is too long to read. Waits and retries if the server
  // asks for it.
  absl::StatusOr<HttpResponse> Call(const std::string& what, HttpRequest request);
  struct ListAnswer {
    Object list;
    std::size_t bytes = 0;
  };
  // Returns nullopt if the page is too long to read.
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
  Credentials credentials_;
  RequestLimiter limiter_;
  ByteBudget answers_;
  std::unique_ptr<HttpTransport> transport_;  // its callbacks use credentials_
};

absl::StatusOr<HttpResponse> ApiServerClient::SendOnce(HttpRequest& request, SteadyTime deadline,
                                                       Duration& waited) {
  const SteadyTime begin = Now();
  LOCKSTEP_ASSIGN_OR_RETURN(request.bearer_token, credentials_.BearerToken());
  const RequestLimiter::Slot slot(limiter_);
  const SteadyTime start = Now();
  if (start >= deadline) {
    return absl::DeadlineExceededError(fmt::format(
        "not sent: its time was over after it had waited {:.2f} s for a token and for one of the "
        "{} requests at once to end",
        std::chrono::duration<double>(start - begin).count(), options_.max_in_flight));
  }
  auto response = transport_->Send(request, deadline - start);
  waited += Now() - start;
  return response;
}

absl::StatusOr<HttpResponse> ApiServerClient::Call(const std::string& what, HttpRequest request) {
  limiter_.WaitForTurn();
  const SteadyTime deadline = Now() + options_.request_deadline;
  bool renewed = false, repeated = false;
  Duration waited{};  // for the server, not for a turn of our own
  const auto marked = [&](absl::Status error, bool overloaded) {
    return overloaded ? MarkOverloaded(std::move(error)) : error;
  };
  for (int retries = 0;;) {
    absl::StatusOr<HttpResponse> response = SendOnce(request, deadline, waited);
    const bool is_slow = waited >= options_.slow_answer;
    if (BrokeOff(response) && request.method == "GET" && !repeated && Now() < deadline) {
      repeated = true;
      continue;
    }
    if (!response.ok()) return marked(Annotate(what, response.status()), is_slow);
    if (response->too_long) return response;
    if (response->status >= 200 && response->status < 300) return response;
    if (response->status == 401 && !renewed && credentials_.Renew(request.bearer_token)) {
      renewed = true;
      continue;
    }
    const bool asks = AsksToComeBack(*response);
    if (!asks || ++retries > kMostRetries || Now() + *response->retry_after >= deadline) {
      return marked(ErrorOf(what, *response), asks || (is_slow && MayBeOverloaded(*response)));
    }
    std::this_thread::sleep_for(*response->retry_after);
  }
}

absl::StatusOr<std::optional<ApiServerClient::ListAnswer>> ApiServerClient::ReadPage(
    const std::string& what, const Kind& kind, const ListOptions& options) {
  const std::string query =
      Query({{"limit", options.limit > 0 ? std::to_string(options.limit) : ""},
             {"continue", options.continue_token},
             {"labelSelector", options.label_selector}});
  HttpRequest request{"GET", CollectionPath(kind, options.namespace_name) + query};
  // A page of one object keeps the larger default, so that any object can be read.
  if (options.limit > 1) request.most_bytes = options_.longest_page;
  LOCKSTEP_ASSIGN_OR_RETURN(const HttpResponse answer, Call(what, std::move(request)));
  if (answer.too_long) return std::nullopt;
  absl::StatusOr<Object> list = ParseObject(answer.body, "items", options.keep);
  if (!list.ok()) return absl::InternalError(Annotate(what, list.status()).message());
  return ListAnswer{*std::move(list), answer.body.size()};
}

absl::StatusOr<ApiServerClient::ListAnswer> ApiServerClient::ReadPageThatFits(
    const std::string& what, const Kind& kind, ListOptions& options) {
  bool expired = false;
  while (true) {
    absl::StatusOr<std::optional<ListAnswer>> answer = ReadPage(what, kind, options);
    if (const auto rest = ContinuationOf(answer.status()); rest && !expired) {
      options.continue_token = *rest;
      expired = true;
      continue;
    }
    if (!answer.ok()) return answer.status();
    if (*answer) return **std::move(answer);
    if (options.limit <= 1) {
      return absl::InternalError(what + ": the answer is too long to be read");
    }
    options.limit /= 2;
  }
}

absl::StatusOr<Page> ApiServerClient::List(const Kind& kind, const ListOptions& options) {
  const std::string what = Describe("list", kind, {options.namespace_name, ""});
  ListOptions asked = options;
  LOCKSTEP_ASSIGN_OR_RETURN(ListAnswer answer, ReadPageThatFits(what, kind, asked));
  Object& list = answer.list;
  const Object& metadata = Member(list, "metadata");
  if (!metadata.is_object()) return absl::InternalError(what + ": the answer is no list");
  Page page;
  page.resource_version = ResourceVersion(list);
  page.continue_token = TextMember(metadata, "continue");
  // A page of twice as many such objects takes half of the limit, so if all objects are equally
  // large, no page is requested in vain.
  const bool has_room = asked.limit == options.limit && answer.bytes <= options_.longest_page / 4;
  page.next_limit = has_room ? 2 * asked.limit : asked.limit;
  if (!Member(list, "items").is_array()) return page;  // null: no items
  Object& items = list["items"];
  page.items.reserve(items.size());
  for (Object& item : items) {
    if (!item.is_object()) return absl::InternalError(what + ": an entry of the list is no object");
    item["apiVersion"] = kind.ApiVersion();  // lists omit it
    item["kind"] = kind.kind;
    page.items.push_back(std::move(item));
  }
  return page;
}

absl::Status ApiServerClient::StreamTo(
    const std::string& what, HttpRequest request, const std::stop_token& stop,
    const std::function<absl::Status(std::string_view)>& on_bytes) {
  for (bool renewed = false;;) {
    LOCKSTEP_ASSIGN_OR_RETURN(request.bearer_token, credentials_.BearerToken());
    absl::Status refused;  // by on_bytes, whose message is returned unchanged
    const auto response =
        transport_->Stream(request, options_.request_deadline, stop,
                           [&](std::string_view bytes) { return refused = on_bytes(bytes); });
    if (stop.stop_requested()) return absl::OkStatus();
    if (!refused.ok()) return refused;
    if (!response.ok()) return Annotate(what, response.status());
    if (response->status == 200) return absl::OkStatus();
    if (response->status == 401 && !renewed && credentials_.Renew(request.bearer_token)) {
      renewed = true;
      continue;
    }
    if (AsksToComeBack(*response)) {
      WaitOrStop(std::min<Duration>(*response->retry_after, kLongestPause), stop);
    }
    if (stop.stop_requested()) return absl::OkStatus();
    return ErrorOf(what, *response);
  }
}

absl::Status ApiServerClient::Watch(const Kind& kind, const WatchOptions& options,
                                    std::stop_token stop,
                                    const std::function<void(WatchEvent)>& on_event) {
  const std::string what = Describe("watch", kind, {options.namespace_name, ""});
  const Duration timeout =
      options.timeout > Duration::zero() ? options.timeout : options_.watch_timeout;
  const std::string query = Query({{"watch", "1"},
                                   {"allowWatchBookmarks", "true"},
                                   {"labelSelector", options.label_selector},
                                   {"resourceVersion", options.resource_version},
                                   {"timeoutSeconds", std::to_string(WatchSeconds(timeout))}});
  WatchDecoder decoder(what, options_.longest_event, options.keep);
  const std::function<void(WatchEvent)> unless_stopped = [&](WatchEvent event) {
    if (!stop.stop_requested()) on_event(std::move(event));
  };
  LOCKSTEP_RETURN_IF_ERROR(
      StreamTo(what, {"GET", CollectionPath(kind, options.namespace_name) + query}, stop,
               [&](std::string_view bytes) { return decoder.Feed(bytes, unless_stopped); }));
  return stop.stop_requested() ? absl::OkStatus() : decoder.Finish();
}

absl::Status ApiServerClient::ReadPodLog(
    const Key& pod, const PodLogOptions& options, std::stop_token stop,
    const std::function<void(const std::string& text)>& on_text) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKey(kPodKind, pod));
  const std::string query =
      Query({{"container", options.container},
             {"follow", options.follow ? "true" : ""},
             {"previous", options.previous ? "true" : ""},
             {"tailLines", options.tail_lines ? std::to_string(*options.tail_lines) : ""},
             {"sinceSeconds", options.since ? std::to_string(options.since->count()) : ""},
             {"sinceTime", options.since_time ? FormatApiTime(*options.since_time) : ""},
             {"timestamps", options.timestamps ? "true" : ""}});
  HttpRequest request{"GET", ObjectPath(kPodKind, pod) + "/log" + query};
  request.may_be_silent = true;  // the log may be idle, and its reader slow
  return StreamTo(Describe("read the log of", kPodKind, pod), std::move(request), stop,
                  [&](std::string_view bytes) {
                    on_text(std::string(bytes));
                    return absl::OkStatus();
                  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestClient>> MakeRestClient(const RestConfig& config,
                                                           const RestClientOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRestConfig(config));
  auto client = std::make_unique<ApiServerClient>(config, options);
  LOCKSTEP_RETURN_IF_ERROR(client->Connect(config));
  return client;
}

}  // namespace lockstep::kube
