#include "operator/kube/rest/watch_decoder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/kube/rest/api_errors.h"
#include "operator/kube/rest/object_json.h"

namespace lockstep::kube {
namespace {

std::optional<WatchEvent::Type> TypeOf(const std::string& type) {
  if (type == "ADDED") return WatchEvent::Type::kAdded;
  if (type == "MODIFIED") return WatchEvent::Type::kModified;
  if (type == "DELETED") return WatchEvent::Type::kDeleted;
  if (type == "BOOKMARK") return WatchEvent::Type::kBookmark;
  return std::nullopt;
}

}  // namespace

WatchDecoder::WatchDecoder(std::string what, std::size_t longest_line, const FieldMask* keep)
    : what_(std::move(what)), longest_line_(longest_line), keep_(keep) {}

absl::Status WatchDecoder::Feed(std::string_view bytes,
                                const std::function<void(WatchEvent)>& on_event) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view piece = whole ? bytes.substr(0, end) : bytes;
    if (scanner_ || partial_.size() + piece.size() > longest_line_) {
      Scan(piece);
    } else if (!whole || !partial_.empty()) {
      partial_ += piece;
    }
    if (!whole) return absl::OkStatus();
    if (scanner_) {
      LogWarning("an event is too long; only the object's identity is read of it",
                 {{"watch", what_}, {"limit", longest_line_}});
      const IdentityScanner scanned = *std::exchange(scanner_, std::nullopt);
      LOCKSTEP_RETURN_IF_ERROR(HandOver(scanned.event(), on_event));
    } else if (partial_.empty()) {
      LOCKSTEP_RETURN_IF_ERROR(DecodeLine(piece, on_event));
    } else {
      const std::string line = std::exchange(partial_, {});
      LOCKSTEP_RETURN_IF_ERROR(DecodeLine(line, on_event));
    }
    bytes.remove_prefix(end + 1);
  }
}

void WatchDecoder::Scan(std::string_view piece) {
  if (!scanner_) {
    scanner_.emplace();
    scanner_->Feed(partial_);
    std::string().swap(partial_);
  }
  scanner_->Feed(piece);
}

absl::Status WatchDecoder::Finish() const {
  if (partial_.empty() && !scanner_) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: the stream ended within an event", what_));
}

absl::Status WatchDecoder::DecodeLine(std::string_view line,
                                      const std::function<void(WatchEvent)>& on_event) {
  if (line.find_first_not_of(" \r\t") == std::string_view::npos) return absl::OkStatus();
  absl::StatusOr<Object> event = ParseObject(line, "object", keep_);
  if (!event.ok()) {
    return absl::UnavailableError(
        fmt::format("{}: an event is {}", what_, std::string(event.status().message())));
  }
  if (TextMember(*event, "type") == "ERROR") {
    // The object of an ERROR event is a Status, which `keep` does not cover.
    event = ParseObject(line);
    return ErrorOf(what_, event.ok() ? Member(*event, "object") : Object());
  }
  return HandOver(*std::move(event), on_event);
}

absl::Status WatchDecoder::HandOver(Object event, const std::function<void(WatchEvent)>& on_event) {
  const std::string type = TextMember(event, "type");
  if (type.empty() || !Member(event, "object").is_object()) {
    return absl::UnavailableError(
        fmt::format("{}: an event has no type or no object: {}", what_, JsonText(event, 200)));
  }
  const std::optional<WatchEvent::Type> known = TypeOf(type);
  if (!known) {
    LogWarning("a watch event of unknown type is passed over", {{"watch", what_}, {"type", type}});
    return absl::OkStatus();
  }
  Object& object = event["object"];
  if (ResourceVersion(object).empty()) {
    return absl::UnavailableError(
        fmt::format("{}: an event's object has no metadata.resourceVersion", what_));
  }
  on_event({*known, std::move(object)});
  return absl::OkStatus();
}

}  // namespace lockstep::kube
