#include "operator/kube/rest/api_errors.h"

#include <fmt/format.h>

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "base/shorten.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/object_protobuf.h"
#include "operator/kube/rest/valid_utf8.h"

namespace lockstep::kube {
namespace {

constexpr char kContinuation[] = "lockstep/continue";
constexpr std::size_t kQuoted = 512;  // bytes quoted of an answer that is no Status
// Bytes. A server quotes the values that it refuses, which may be as long as an object, and errors
// are remembered.
constexpr std::size_t kLongestServerMessage = 16'000;

// True for `Pod "a" is invalid: …`, the format of apimachinery's NewInvalid. Admission uses the
// same code and reason, but its message begins with `pods "a" is forbidden` or `admission webhook
// "x" denied the request`, whatever it quotes after that.
bool IsOfValidation(std::string_view message) {
  const std::size_t begin = message.find('"');
  if (begin == std::string_view::npos) return false;
  const std::size_t end = message.find('"', begin + 1);
  return end != std::string_view::npos && message.substr(end + 1).starts_with(" is invalid");
}

// True for an object that etcd does not take, or that the API server cannot send to it. The server
// answers as if it had failed itself, but no repetition helps.
bool IsTooLarge(std::string_view message) {
  return message.find("etcdserver: request is too large") != std::string_view::npos ||
         message.find("trying to send message larger than max") != std::string_view::npos;
}

absl::Status Make(const std::string& what, int http_status, const std::string& reason,
                  const std::string& message) {
  return {CodeOf(http_status, reason, message),
          fmt::format("{}: {} ({}{}{})", what, Shortened(message, kLongestServerMessage, " …"),
                      http_status, reason.empty() ? "" : " ", Shortened(reason, kQuoted))};
}

}  // namespace

absl::StatusCode CodeOf(int http_status, std::string_view reason, std::string_view message) {
  using enum absl::StatusCode;
  switch (http_status) {
    case 422:
      return reason == "Invalid" && IsOfValidation(message) ? kInvalidArgument
                                                            : kFailedPrecondition;
    case 400:
    case 406:
    case 413:
    case 415:
      return kFailedPrecondition;
    case 401:
      return kUnauthenticated;
    case 403:
      return kPermissionDenied;
    case 404:
      return kNotFound;
    case 405:
    case 501:
      return kUnimplemented;
    case 409:
      return reason == "AlreadyExists" ? kAlreadyExists : kAborted;
    case 410:
      return kOutOfRange;
    case 429:
      return kResourceExhausted;
    case 500:
      return IsTooLarge(message) ? kFailedPrecondition : kUnavailable;
    case 504:
      return kDeadlineExceeded;
    default:
      if (http_status >= 300 && http_status < 400) return kFailedPrecondition;
      return http_status >= 500 ? kUnavailable : kUnknown;
  }
}

absl::Status ErrorOf(const std::string& what, const Object& status) {
  const Object& code = Member(status, "code");
  const int http_status = code.is_number_integer() ? code.get<int>() : 500;
  std::string message = TextMember(status, "message");
  if (message.empty()) message = "the server gave no reason";
  return Make(what, http_status, TextMember(status, "reason"), message);
}

absl::Status ErrorOf(const std::string& what, const HttpResponse& response,
                     const std::string& server) {
  if (const auto status = IsProtobuf(response.body) ? ParseProtobuf(response.body, nullptr)
                                                    : ParseObject(response.body);
      status.ok() && TextMember(*status, "kind") == "Status") {
    absl::Status error =
        Make(what, response.status, TextMember(*status, "reason"), TextMember(*status, "message"));
    const std::string token = TextMember(Member(*status, "metadata"), "continue");
    if (!token.empty()) error.SetPayload(kContinuation, absl::Cord(token));
    return error;
  }
  const std::string where = server.empty() ? what : fmt::format("{}: {}", what, server);
  if (response.status >= 300 && response.status < 400) {
    return Make(where, response.status, "", "the server redirects, which is not followed");
  }
  std::string answer = response.body.empty() ? "an empty answer" : response.body;
  absl::StripTrailingAsciiWhitespace(&answer);       // Go's servers end a text with a line feed
  ReplaceInvalidUtf8(answer.data(), answer.size());  // errors are written to objects
  return Make(where, response.status, "", Shortened(answer, kQuoted));
}

bool MayBeOverloaded(const HttpResponse& response) {
  return response.status == 429 || response.status >= 500;
}

bool AsksToComeBack(const HttpResponse& response) {
  return MayBeOverloaded(response) && response.retry_after.has_value();
}

std::optional<std::string> ContinuationOf(const absl::Status& error) {
  if (!absl::IsOutOfRange(error)) return std::nullopt;
  const auto token = error.GetPayload(kContinuation);
  if (!token) return std::nullopt;
  return std::string(*token);
}

}  // namespace lockstep::kube
