#include "operator/kube/rest/api_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "operator/kube/server_errors.h"

namespace lockstep::kube {
namespace {

using ::testing::HasSubstr;
using enum absl::StatusCode;

TEST(ApiErrorsTest, CodesAreThoseOfTheClientContract) {
  const std::pair<int, absl::StatusCode> cases[] = {
      {400, kFailedPrecondition}, {401, kUnauthenticated},   {403, kPermissionDenied},
      {404, kNotFound},           {409, kAborted},           {410, kOutOfRange},
      {422, kFailedPrecondition}, {429, kResourceExhausted}, {500, kUnavailable},
      {503, kUnavailable},        {504, kDeadlineExceeded},  {302, kFailedPrecondition},
      {413, kFailedPrecondition}, {405, kUnimplemented}};
  for (const auto& [status, code] : cases) EXPECT_EQ(CodeOf(status, "", ""), code) << status;
  EXPECT_EQ(CodeOf(409, "AlreadyExists", ""), kAlreadyExists);
  EXPECT_EQ(CodeOf(409, "Conflict", ""), kAborted);
}

TEST(ApiErrorsTest, AnObjectTooLargeForEtcdIsRefused) {
  EXPECT_EQ(CodeOf(500, "", "etcdserver: request is too large"), kFailedPrecondition);
  EXPECT_EQ(CodeOf(500, "InternalError",
                   "rpc error: code = ResourceExhausted desc = trying to send message larger than "
                   "max (2100000 vs. 2097152)"),
            kFailedPrecondition);
  EXPECT_EQ(CodeOf(500, "InternalError", "etcdserver: request timed out"), kUnavailable);
}

// The same object is always refused if validation found it invalid; a refusal by admission, with
// the same code and reason, may pass.
TEST(ApiErrorsTest, OnlyWhatValidationRefusesIsInvalid) {
  const std::tuple<const char*, const char*, absl::StatusCode> cases[] = {
      {"Invalid", R"(Pod "a" is invalid: spec.containers[0].image: Required value)",
       kInvalidArgument},
      {"Invalid", R"(TrainingJob.training.lockstep.dev "a" is invalid: status: Invalid value)",
       kInvalidArgument},
      {"Invalid", R"(Pod "" is invalid: metadata.name: Required value)", kInvalidArgument},
      {"Invalid",
       R"(pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no)",
       kFailedPrecondition},
      {"Invalid",
       R"(pods "a" is forbidden: ValidatingAdmissionPolicy 'p' denied request: image "x" is invalid)",
       kFailedPrecondition},
      {"Invalid",
       R"(admission webhook "w" denied the request: Pod "a" is invalid: spec: Forbidden)",
       kFailedPrecondition},
      {"Forbidden", R"(Pod "a" is invalid)", kFailedPrecondition},
      {"Invalid", "no", kFailedPrecondition},
      {"", "", kFailedPrecondition}};
  for (const auto& [reason, message, code] : cases) {
    EXPECT_EQ(CodeOf(422, reason, message), code) << message;
  }
}

TEST(ApiErrorsTest, AMarkKeepsTheErrorAndIsNoneOfOk) {
  const absl::Status error = absl::UnavailableError("no");
  EXPECT_FALSE(IsOverloaded(error));
  EXPECT_TRUE(IsOverloaded(MarkOverloaded(error)));
  EXPECT_TRUE(absl::IsUnavailable(MarkOverloaded(error)));
  EXPECT_EQ(MarkOverloaded(error).message(), "no");
  EXPECT_FALSE(IsOverloaded(MarkOverloaded(absl::OkStatus())));
  EXPECT_TRUE(IsOverloaded(absl::DeadlineExceededError("no answer within 30 s")));
}

TEST(ApiErrorsTest, TheMessageNamesTheCallAndTheServersReason) {
  const absl::Status status = ErrorOf(
      "create pods default/a",
      HttpResponse{
          409, std::nullopt,
          R"({"kind":"Status","code":409,"reason":"AlreadyExists","message":"pods \"a\" already exists"})"});
  EXPECT_EQ(status.ToString(),
            "ALREADY_EXISTS: create pods default/a: pods \"a\" already exists (409 AlreadyExists)");
}

TEST(ApiErrorsTest, AnAnswerThatIsNoStatusIsQuotedInPart) {
  const absl::Status status =
      ErrorOf("get pods a", HttpResponse{502, std::nullopt, "<html>" + std::string(5000, 'x')});
  EXPECT_THAT(status.ToString(), HasSubstr("get pods a: <html>xxx"));
  EXPECT_LT(status.message().size(), 700U);
  EXPECT_THAT(ErrorOf("x", HttpResponse{500, std::nullopt, ""}).ToString(),
              HasSubstr("an empty answer (500)"));
  EXPECT_EQ(ErrorOf("x", HttpResponse{404, std::nullopt, "404 page not found\n"}).message(),
            "x: 404 page not found (404)");
}

// Else the condition or the event that quotes it could not be written.
TEST(ApiErrorsTest, AnAnswerInAnotherEncodingIsQuotedInUtf8) {
  const auto quoted = [](const std::string& body) {
    return std::string(ErrorOf("x", HttpResponse{403, std::nullopt, body}).message());
  };
  EXPECT_EQ(quoted("acc\xE8s refus\xE9"), "x: acc?s refus? (403)");
  EXPECT_EQ(quoted("acc\u00E8s"), "x: acc\u00E8s (403)");
  const std::string cut = quoted(std::string(511, 'x') + "\u00E8" + std::string(100, '\xFF'));
  EXPECT_EQ(Object(cut).dump(), '"' + cut + '"') << "a character may not be cut";
}

TEST(ApiErrorsTest, OfARefusedValueThatIsQuotedOnlyAPartIsKept) {
  const Object refusal = {
      {"kind", "Status"},
      {"code", 422},
      {"reason", "Invalid"},
      {"message", R"(Pod "a" is invalid: spec: Invalid value: ")" + std::string(1'000'000, 'x')}};
  const absl::Status of_call =
      ErrorOf("create pods a", HttpResponse{422, std::nullopt, refusal.dump()});
  for (const absl::Status& status : {of_call, ErrorOf("create pods a", refusal)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("create pods a: Pod \"a\" is invalid"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("x … (422 Invalid)"));
    EXPECT_LT(status.message().size(), 16'100U);
  }
}

TEST(ApiErrorsTest, AQuoteEndsBetweenCharacters) {
  std::string body = "<";
  for (int i = 0; i < 1000; ++i) body += "\u00e9";  // two bytes
  EXPECT_THAT(ErrorOf("x", HttpResponse{502, std::nullopt, body}).ToString(),
              HasSubstr("\u00e9 (502)"));
}

// A proxy's page in Latin-1. What calls return is written to conditions and events.
TEST(ApiErrorsTest, AQuoteIsValidText) {
  EXPECT_THAT(ErrorOf("x", HttpResponse{403, std::nullopt, "acc\xe8s refus\xe9"}).ToString(),
              HasSubstr("x: acc?s refus? (403)"));
  EXPECT_THAT(ErrorOf("x", HttpResponse{502, std::nullopt, std::string(5000, '\x80')}).ToString(),
              HasSubstr("????? (502)"));
}

TEST(ApiErrorsTest, ARedirectIsNotFollowed) {
  EXPECT_THAT(ErrorOf("get pods a", HttpResponse{307, std::nullopt, ""}).ToString(),
              HasSubstr("redirects"));
}

TEST(ApiErrorsTest, AFullQuotaIsNoMissingRight) {
  const auto forbidden = [](const char* message) {
    return ErrorOf("create", {{"code", 403}, {"reason", "Forbidden"}, {"message", message}});
  };
  EXPECT_TRUE(
      ExceedsQuota(forbidden("secrets \"s\" is forbidden: exceeded quota: q, requested: "
                             "count/secrets=1, used: count/secrets=1")));
  EXPECT_FALSE(ExceedsQuota(forbidden("secrets is forbidden: User \"x\" cannot create resource")));
  EXPECT_FALSE(ExceedsQuota(absl::AlreadyExistsError("exceeded quota: q")));
  EXPECT_FALSE(ExceedsQuota(absl::OkStatus()));
}

}  // namespace
}  // namespace lockstep::kube
