// A watch's body: the same events and the same end, however the bytes are cut.
#include "operator/kube/rest/watch_decoder.h"
#include "tests/fuzz/fuzz.h"

#include <vector>

using lockstep::fuzz::Require;
using lockstep::kube::WatchDecoder;
using lockstep::kube::WatchEvent;

namespace {

struct Outcome {
  std::vector<std::string> events;
  absl::StatusCode end = absl::StatusCode::kOk;
  bool operator==(const Outcome&) const = default;
};

Outcome Decode(const std::string& text, std::size_t piece) {
  WatchDecoder decoder("watch", 4096);
  Outcome outcome;
  const auto note = [&outcome](const WatchEvent& event) {
    outcome.events.push_back(
        std::to_string(static_cast<int>(event.type)) +
        event.object.dump(-1, ' ', false, lockstep::kube::Object::error_handler_t::replace));
  };
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const absl::Status fed = decoder.Feed(std::string_view(text).substr(at, piece), note);
    outcome.end = fed.code();
    if (!fed.ok()) return outcome;
  }
  outcome.end = decoder.Finish().code();
  return outcome;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = lockstep::fuzz::Text(data, size);
  const Outcome whole = Decode(text, text.size() + 1);
  Require(Decode(text, 1) == whole, "cut into bytes, it says the same");
  Require(Decode(text, 7) == whole, "cut into sevens, it says the same");
  return 0;
}
