#include "operator/kube/rest/identity_scanner.h"

#include <algorithm>
#include <utility>

namespace lockstep::kube {
namespace {

constexpr std::size_t kLongestText = 512;  // names, versions and uids have at most 253 characters

constexpr std::string_view kOfEvent[] = {"type"};
constexpr std::string_view kOfObject[] = {"apiVersion", "kind"};
constexpr std::string_view kOfMetadata[] = {"name", "namespace", "uid", "resourceVersion",
                                            "deletionTimestamp"};

bool Contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

}  // namespace

void IdentityScanner::Feed(std::string_view bytes) {
  for (const char byte : bytes) OnByte(byte);
}

Object IdentityScanner::event() const {
  return event_;
}

bool IdentityScanner::IsWanted() const {
  if (lists_ > 0) return false;
  if (depth_ == 1) return Contains(kOfEvent, path_[0]);
  if (path_[0] != "object") return false;
  if (depth_ == 2) return Contains(kOfObject, path_[1]);
  return depth_ == 3 && path_[1] == "metadata" && Contains(kOfMetadata, path_[2]);
}

void IdentityScanner::OnByte(char byte) {
  if (in_text_) {
    if (!escaped_ && byte == '"') return OnTextEnd();
    escaped_ = !escaped_ && byte == '\\';
    if (kept_ && text_.size() < kLongestText) text_ += byte;
    return;
  }
  switch (byte) {
    case '"':
      in_text_ = true;
      kept_ = is_name_ ? depth_ <= kDeepest && lists_ == 0 : IsWanted();
      text_.clear();
      break;
    case '{':
    case '[':
      ++depth_;
      if (byte == '[' || lists_ > 0) ++lists_;
      is_name_ = byte == '{';
      break;
    case '}':
    case ']':
      if (depth_ > 0) --depth_;
      if (lists_ > 0) --lists_;
      is_name_ = false;
      break;
    case ',':
      is_name_ = lists_ == 0;
      break;
    case ':':
      is_name_ = false;
      break;
    default:
      break;
  }
}

void IdentityScanner::OnTextEnd() {
  in_text_ = false;
  if (!kept_) return;
  if (is_name_) {
    if (depth_ > 0) path_[depth_ - 1] = std::exchange(text_, {});
    return;
  }
  Object* into = &event_;
  if (depth_ > 1) into = &(*into)["object"];
  if (depth_ > 2) into = &(*into)["metadata"];
  (*into)[path_[depth_ - 1]] = std::exchange(text_, {});
}

}  // namespace lockstep::kube
