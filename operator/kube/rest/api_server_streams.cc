// The client's lists, watches and logs.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/kube/rest/api_errors.h"
#include "operator/kube/rest/api_server_client.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/object_protobuf.h"
#include "operator/kube/rest/resource_path.h"
#include "operator/kube/rest/watch_decoder.h"

namespace lockstep::kube {
namespace {

// The server ends a watch within `limit`. The jitter keeps a client's watches from ending together.
int WatchSeconds(Duration limit) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const double share = std::uniform_real_distribution<double>(0.8, 1.0)(random);
  const double seconds = std::chrono::duration<double>(limit).count() * share;
  return std::max(1, static_cast<int>(seconds));
}

// Asks for protobuf where that has what is read; a server that lacks it sends JSON.
const char* AcceptOf(const Kind& kind, const FieldMask* keep) {
  return HasProtobufOf(kind, keep) ? "application/vnd.kubernetes.protobuf, application/json"
                                   : "application/json";
}

void WaitOrStop(Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, duration, [] { return false; });
}

}  // namespace

absl::StatusOr<std::optional<ApiServerClient::ListAnswer>> ApiServerClient::ReadPage(
    const std::string& what, const Kind& kind, const ListOptions& options) {
  const std::string query =
      Query({{"limit", options.limit > 0 ? std::to_string(options.limit) : ""},
             {"continue", options.continue_token},
             {"labelSelector", options.label_selector}});
  HttpRequest request{"GET", CollectionPath(kind, options.namespace_name) + query};
  request.accept = AcceptOf(kind, options.keep);
  // A page of one object keeps the larger default, so that any object can be read.
  if (options.limit > 1) request.most_bytes = options_.longest_page;
  // Before the share: a later page, which needs no token, must not wait for a page that sleeps.
  if (options.continue_token.empty()) limiter_.WaitForTurn();
  // Before the share, too: who follows a kind must hear of a failure as soon as if it had been
  // sent.
  const SteadyTime deadline = std::chrono::steady_clock::now() + options_.request_deadline;
  // Held until the page is parsed. No limit: any number of objects.
  const ByteBudget::Share share(pages_,
                                options.limit > 0
                                    ? static_cast<std::size_t>(options.limit) * kLongestStored
                                    : options_.most_listed,
                                deadline);
  if (!share.is_held()) {
    return absl::UnavailableError(
        what + ": not sent: its time was over while it waited for pages of other lists");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const HttpResponse answer,
                            CallAtOnce(what, std::move(request), deadline));
  if (answer.too_long) return std::nullopt;
  absl::StatusOr<Object> list = IsProtobuf(answer.body)
                                    ? ParseProtobuf(answer.body, options.keep)
                                    : ParseObject(answer.body, "items", options.keep);
  if (!list.ok()) return Refuse(what, list.status());
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
    request.certificate = credentials_.CertificateNumber();
    absl::Status refused;  // by on_bytes, whose message is returned unchanged
    const auto response =
        transport_->Stream(request, options_.request_deadline, stop,
                           [&](std::string_view bytes) { return refused = on_bytes(bytes); });
    if (stop.stop_requested()) return absl::OkStatus();
    if (!refused.ok()) return refused;
    if (!response.ok()) return Annotate(what, response.status());
    if (response->status == 200) return absl::OkStatus();
    if (response->status == 401 && !renewed &&
        credentials_.Renew(request.bearer_token, request.certificate)) {
      renewed = true;
      continue;
    }
    if (AsksToComeBack(*response)) {
      WaitOrStop(std::min<Duration>(*response->retry_after, options_.longest_pause), stop);
    }
    if (stop.stop_requested()) return absl::OkStatus();
    return ErrorOf(what, *response, server_);
  }
}

absl::Status ApiServerClient::Watch(const Kind& kind, const WatchOptions& options,
                                    std::stop_token stop,
                                    const std::function<void(WatchEvent)>& on_event) {
  const std::string what = Describe("watch", kind, {options.namespace_name, ""});
  const Duration timeout = options.timeout > Duration::zero()
                               ? std::min(options.timeout, options_.watch_timeout)
                               : options_.watch_timeout;
  const std::string query = Query({{"watch", "1"},
                                   {"allowWatchBookmarks", "true"},
                                   {"labelSelector", options.label_selector},
                                   {"resourceVersion", options.resource_version},
                                   {"timeoutSeconds", std::to_string(WatchSeconds(timeout))}});
  WatchDecoder decoder(what, options_.longest_event, options.keep);
  const std::function<void(WatchEvent)> unless_stopped = [&](WatchEvent event) {
    if (!stop.stop_requested()) on_event(std::move(event));
  };
  HttpRequest request{"GET", CollectionPath(kind, options.namespace_name) + query};
  request.accept = AcceptOf(kind, options.keep);
  LOCKSTEP_RETURN_IF_ERROR(StreamTo(what, std::move(request), stop, [&](std::string_view bytes) {
    return decoder.Feed(bytes, unless_stopped);
  }));
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

}  // namespace lockstep::kube
