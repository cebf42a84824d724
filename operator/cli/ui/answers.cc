#include "operator/cli/ui/answers.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "base/hmac.h"
#include "base/json_text.h"
#include "operator/cli/ui/page_files.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kTokenBytes = 16;
constexpr char kJson[] = "application/json";
// The page loads nothing from elsewhere, runs no script in its text, and no other page may show it.
constexpr char kHeaders[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Frame-Options: DENY\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

HttpAnswer Refusal(int status, const std::string& why) {
  return {.status = status, .body = why + "\n", .headers = kHeaders};
}

HttpAnswer JsonAnswer(std::optional<std::string> json) {
  if (!json) {
    return Refusal(
        429, "too many jobs or logs are shown at once: close a page, or wait for a few seconds");
  }
  return {.content_type = kJson, .body = *std::move(json), .headers = kHeaders};
}

// Any port will do: that of a tunnel is another one.
bool IsThisMachine(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && !host.ends_with(']')) host = host.substr(0, colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

std::optional<int> HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return std::nullopt;
}

std::string Decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool has_code = text[i] == '%' && i + 2 < text.size();
    const auto high = has_code ? HexDigit(text[i + 1]) : std::nullopt;
    const auto low = has_code ? HexDigit(text[i + 2]) : std::nullopt;
    if (high && low) {
      decoded += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::map<std::string, std::string> ParseQuery(std::string_view query) {
  std::map<std::string, std::string> values;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    values[std::string(pair.substr(0, equals))] = Decoded(pair.substr(equals + 1));
  }
  return values;
}

}  // namespace

std::string NewToken() {
  return ToHex(RandomBytes(kTokenBytes));
}

HttpAnswer Answers::To(const HttpGet& get) const {
  if (!IsThisMachine(get.host)) {
    return Refusal(403, "found another machine's name in Host, expected 127.0.0.1 or localhost");
  }
  if (get.path.starts_with("/api/")) {
    if (EqualInConstantTime(get.authorization, "Bearer " + token_)) return ToApi(get);
    return Refusal(401, "found no token or another one: open the URL that `lockstep ui` printed");
  }
  for (const PageFile& file : PageFiles()) {
    if (get.path != file.path) continue;
    return {.content_type = std::string(file.content_type),
            .body = std::string(file.text),
            .headers = kHeaders};
  }
  return Refusal(404, "no such page");
}

HttpAnswer Answers::ToApi(const HttpGet& get) const {
  std::map<std::string, std::string> query = ParseQuery(get.query);
  const kube::Key key{query["namespace"], query["name"]};
  if (get.path == "/api/jobs") return JsonAnswer(board_.Jobs());
  if (get.path == "/api/job") return JsonAnswer(board_.Job(key));
  if (get.path == "/api/log") {
    std::uint64_t after = 0;
    if (!query["after"].empty() && !absl::SimpleAtoi(query["after"], &after)) {
      return Refusal(400, "after: expected a number");
    }
    return JsonAnswer(board_.Log(key, query["replica"], after));
  }
  return Refusal(404, "no such page");
}

}  // namespace lockstep::cli
