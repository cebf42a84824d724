#include "operator/kube/rest/rest_client.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "operator/kube/rest/api_errors.h"
#include "operator/kube/rest/api_server_client.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/server_errors.h"

namespace lockstep::kube {
namespace {

constexpr int kMostRetries = 10;  // per call, when the server asks for a retry

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

// The server may have executed a request that it did not answer.
bool BrokeOff(const absl::StatusOr<HttpResponse>& response) {
  return absl::IsUnavailable(response.status());
}

bool IsSuccess(const HttpResponse& response) {
  return response.status >= 200 && response.status < 300;
}

}  // namespace

absl::Status ApiServerClient::Connect(const RestConfig& config) {
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

absl::Status ApiServerClient::Annotate(const std::string& what, const absl::Status& status) {
  absl::Status annotated(status.code(), fmt::format("{}: {}", what, std::string(status.message())));
  status.ForEachPayload([&annotated](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

absl::Status ApiServerClient::Refuse(const std::string& what, const absl::Status& answer) const {
  return absl::InternalError(
      fmt::format("{}: found an answer that is {}, expected one of the API server at {}", what,
                  std::string(answer.message()), server_));
}

absl::StatusOr<HttpResponse> ApiServerClient::SendOnce(HttpRequest& request, SteadyTime deadline,
                                                       Duration& waited) {
  const SteadyTime begin = Now();
  LOCKSTEP_ASSIGN_OR_RETURN(request.bearer_token, credentials_.BearerToken());
  request.certificate = credentials_.CertificateNumber();
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

absl::StatusOr<HttpResponse> ApiServerClient::CallThrough(const std::string& what,
                                                          HttpRequest request, Duration timeout) {
  limiter_.WaitForTurn();
  Duration waited{};
  absl::StatusOr<HttpResponse> response = SendOnce(request, Now() + timeout, waited);
  if (!response.ok()) return Annotate(what, response.status());
  if (response->too_long || IsSuccess(*response)) return response;
  return ErrorOf(what, *response);
}

absl::StatusOr<HttpResponse> ApiServerClient::Call(const std::string& what, HttpRequest request) {
  limiter_.WaitForTurn();
  return CallAtOnce(what, std::move(request), Now() + options_.request_deadline);
}

absl::StatusOr<HttpResponse> ApiServerClient::CallAtOnce(const std::string& what,
                                                         HttpRequest request, SteadyTime deadline) {
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
    if (response->too_long || IsSuccess(*response)) return response;
    if (response->status == 401 && !renewed &&
        credentials_.Renew(request.bearer_token, request.certificate)) {
      renewed = true;
      continue;
    }
    const bool asks = AsksToComeBack(*response);
    if (!asks || ++retries > kMostRetries || Now() + *response->retry_after >= deadline) {
      return marked(ErrorOf(what, *response, server_),
                    asks || (is_slow && MayBeOverloaded(*response)));
    }
    std::this_thread::sleep_for(*response->retry_after);
  }
}

absl::StatusOr<Object> ApiServerClient::CallForObject(const std::string& what, HttpRequest request,
                                                      const FieldMask* keep) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HttpResponse answer, Call(what, std::move(request)));
  if (answer.too_long) return absl::InternalError(what + ": the answer is too long to be read");
  absl::StatusOr<Object> object = ParseObject(answer.body, "", keep);
  if (!object.ok()) return Refuse(what, object.status());
  return object;
}

absl::StatusOr<std::unique_ptr<RestClient>> MakeRestClient(const RestConfig& config,
                                                           const RestClientOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRestConfig(config));
  auto client = std::make_unique<ApiServerClient>(config, options);
  LOCKSTEP_RETURN_IF_ERROR(client->Connect(config));
  return client;
}

}  // namespace lockstep::kube
