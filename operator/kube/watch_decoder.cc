#include "operator/kube/watch_decoder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/base/log.h"
#include "api/base/shorten.h"
#include "api/base/status.h"
#include "operator/kube/api_errors.h"
#include "operator/kube/object_json.h"

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

WatchDecoder::WatchDecoder(std::string what, std::size_t longest_line, const FieldTree* keep)
    : what_(std::move(what)), longest_line_(longest_line), keep_(keep) {}

absl::Status WatchDecoder::Feed(std::string_view bytes,
                                const std::function<void(WatchEvent)>& on_event) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view piece = whole ? bytes.substr(0, end) : bytes;
    if (partial_.size() + piece.size() > longest_line_) {
      return absl::UnavailableError(
          fmt::format("{}: an event is longer than {} bytes", what_, longest_line_));
    }
    if (!whole) {
      partial_ += piece;
      return absl::OkStatus();
    }
    if (partial_.empty()) {
      LOCKSTEP_RETURN_IF_ERROR(DecodeLine(piece, on_event));
    } else {
      partial_ += piece;
      const std::string line = std::exchange(partial_, {});
      LOCKSTEP_RETURN_IF_ERROR(DecodeLine(line, on_event));
    }
    bytes.remove_prefix(end + 1);
  }
}

absl::Status WatchDecoder::Finish() const {
  if (partial_.empty()) return absl::OkStatus();
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
  const auto type = event->is_object() ? event->find("type") : event->end();
  const auto object = event->is_object() ? event->find("object") : event->end();
  if (type == event->end() || !type->is_string() || object == event->end() ||
      !object->is_object()) {
    return absl::UnavailableError(fmt::format("{}: an event has no type or no object: {}", what_,
                                              Shortened(std::string(line), 200)));
  }
  const auto name = type->get<std::string>();
  if (name == "ERROR") {  // its object is a Status, whose members `keep` does not know
    event = ParseObject(line);
    return ErrorOf(what_, event.ok() ? Member(*event, "object") : Object());
  }
  const std::optional<WatchEvent::Type> known = TypeOf(name);
  if (!known) {
    LogWarning("a watch event of unknown type is passed over", {{"watch", what_}, {"type", name}});
    return absl::OkStatus();
  }
  if (ResourceVersion(*object).empty()) {
    return absl::UnavailableError(
        fmt::format("{}: an event's object has no metadata.resourceVersion", what_));
  }
  on_event({*known, std::move(*object)});
  return absl::OkStatus();
}

}  // namespace lockstep::kube
