#include "operator/kube/cut_json.h"

#include <algorithm>

namespace lockstep::kube {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

// The position after the string that begins at `begin`; kNowhere without an end.
std::size_t EndOfString(std::string_view text, std::size_t begin) {
  for (std::size_t quote = begin;;) {
    quote = text.find('"', quote + 1);
    if (quote == kNowhere) return kNowhere;
    std::size_t backslashes = 0;
    while (text[quote - 1 - backslashes] == '\\') ++backslashes;  // ends at the opening quote
    if (backslashes % 2 == 0) return quote + 1;
  }
}

std::size_t AfterSpace(std::string_view text, std::size_t position) {
  position = text.find_first_not_of(" \t\r\n", position);
  return position == kNowhere ? text.size() : position;
}

// The position after the object or array that begins at `begin`; kNowhere without an end, or if it
// nests deeper than `deepest`.
std::size_t EndOfNested(std::string_view text, std::size_t begin, std::size_t deepest) {
  std::size_t depth = 0;
  for (std::size_t i = begin; (i = text.find_first_of("\"[]{}", i)) != kNowhere;) {
    switch (text[i]) {
      case '"':
        i = EndOfString(text, i);
        if (i == kNowhere) return kNowhere;
        continue;
      case '[':
      case '{':
        if (++depth > deepest) return kNowhere;
        break;
      default:
        if (--depth == 0) return i + 1;
    }
    ++i;
  }
  return kNowhere;
}

class Cutter {
 public:
  Cutter(std::string_view text, const std::vector<std::string>& unneeded, std::size_t deepest)
      : text_(text), unneeded_(unneeded), deepest_(deepest) {}

  std::string Run() {
    for (std::size_t i = 0; (i = text_.find_first_of("\"[]{}", i)) != kNowhere;) {
      const char c = text_[i];
      if (c == '"') {
        i = PastString(i);
        if (i == kNowhere) break;
        continue;
      }
      if (c == '[' || c == '{') {
        if (levels_.size() == deepest_) break;
        levels_.push_back({c == '{', c == '{' && i == metadata_at_});
      } else {
        if (levels_.empty()) break;
        levels_.pop_back();
      }
      ++i;
    }
    if (copied_ == 0) return "";
    out_ += text_.substr(copied_);
    return std::move(out_);
  }

 private:
  struct Level {
    bool is_object = false, is_metadata = false;
  };

  // Past a string and, if it is the name of what is to be taken out, past that.
  std::size_t PastString(std::size_t begin) {
    const std::size_t end = EndOfString(text_, begin);
    if (end == kNowhere || levels_.empty() || !levels_.back().is_object) return end;
    const std::size_t colon = AfterSpace(text_, end);
    if (colon == text_.size() || text_[colon] != ':') return end;
    const std::size_t value = AfterSpace(text_, colon + 1);
    if (value == text_.size()) return end;
    const std::string_view name = text_.substr(begin + 1, end - begin - 2);
    if (name == "metadata") metadata_at_ = value;
    if (!IsUnneeded(name, text_[value])) return value;
    const std::size_t after = EndOfNested(text_, value, deepest_ - levels_.size());
    if (after == kNowhere) return value;
    out_ += text_.substr(copied_, value - copied_);
    out_ += '0';
    copied_ = after;
    return after;
  }

  bool IsUnneeded(std::string_view name, char first) const {
    if (first != '[') return false;
    if (name == "managedFields") return levels_.back().is_metadata;
    return std::ranges::find(unneeded_, name) != unneeded_.end();
  }

  const std::string_view text_;
  const std::vector<std::string>& unneeded_;
  const std::size_t deepest_;
  std::vector<Level> levels_;
  std::size_t metadata_at_ = kNowhere;  // where the value of a `metadata` begins
  std::string out_;
  std::size_t copied_ = 0;  // up to here the text is in out_, or taken out
};

}  // namespace

std::string CutJson(std::string_view text, const std::vector<std::string>& unneeded,
                    std::size_t deepest) {
  return Cutter(text, unneeded, deepest).Run();
}

}  // namespace lockstep::kube
