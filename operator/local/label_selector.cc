#include "operator/local/label_selector.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <utility>

namespace lockstep::local {
namespace {

// Splits a selector into words and the punctuation , ( ) ! = == !=.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  // Returns the next token without consuming it; empty at the end.
  std::string_view Peek() {
    SkipSpace();
    if (pos_ == text_.size()) return {};
    const char c = text_[pos_];
    if (c == '=' || c == '!') {
      const bool two = pos_ + 1 < text_.size() && text_[pos_ + 1] == '=';
      return text_.substr(pos_, two ? 2 : 1);
    }
    if (!IsWord(c)) return text_.substr(pos_, 1);
    std::size_t end = pos_;
    while (end < text_.size() && IsWord(text_[end])) ++end;
    return text_.substr(pos_, end - pos_);
  }

  std::string_view Next() {
    const std::string_view token = Peek();
    pos_ += token.size();
    return token;
  }

  bool Skip(std::string_view token) {
    if (Peek() != token) return false;
    Next();
    return true;
  }

  static bool IsWord(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
           c == '/';
  }

 private:
  void SkipSpace() {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
  }

  std::string_view text_;
  std::size_t pos_ = 0;
};

// Returns a word, or the empty value of "a=" and "a in (x,)".
std::optional<std::string> NextValue(Lexer& lexer) {
  const std::string_view token = lexer.Peek();
  if (token.empty() || token == "," || token == ")") return std::string();
  if (!Lexer::IsWord(token.front())) return std::nullopt;
  return std::string(lexer.Next());
}

std::optional<std::set<std::string>> NextValueList(Lexer& lexer) {
  if (!lexer.Skip("(")) return std::nullopt;
  std::set<std::string> values;
  do {
    std::optional<std::string> value = NextValue(lexer);
    if (!value) return std::nullopt;
    values.insert(*std::move(value));
  } while (lexer.Skip(","));
  if (!lexer.Skip(")")) return std::nullopt;
  return values;
}

}  // namespace

absl::StatusOr<LabelSelector> LabelSelector::Parse(std::string_view text) {
  LabelSelector selector;
  Lexer lexer(text);
  const auto fault = [&](std::string_view expected) {
    return absl::FailedPreconditionError(fmt::format(
        "label selector \"{}\": found \"{}\", expected {}", text, lexer.Peek(), expected));
  };
  while (!lexer.Peek().empty()) {
    Requirement requirement;
    const bool negated = lexer.Skip("!");
    if (lexer.Peek().empty() || !Lexer::IsWord(lexer.Peek().front())) return fault("a label key");
    requirement.key = lexer.Next();
    if (negated) {
      requirement.op = Operator::kDoesNotExist;
    } else if (lexer.Peek() == "in" || lexer.Peek() == "notin") {
      requirement.op = lexer.Next() == "in" ? Operator::kIn : Operator::kNotIn;
      auto values = NextValueList(lexer);
      if (!values) return fault("a list like (a,b)");
      requirement.values = *std::move(values);
    } else if (lexer.Peek() == "=" || lexer.Peek() == "==" || lexer.Peek() == "!=") {
      requirement.op = lexer.Next() == "!=" ? Operator::kNotIn : Operator::kIn;
      auto value = NextValue(lexer);
      if (!value) return fault("a label value");
      requirement.values.insert(*std::move(value));
    }
    selector.requirements_.push_back(std::move(requirement));
    if (lexer.Skip(",")) {
      if (lexer.Peek().empty()) return fault("a label key");
    } else if (!lexer.Peek().empty()) {
      return fault("a comma or the end");
    }
  }
  return selector;
}

bool LabelSelector::Matches(const nlohmann::json& labels) const {
  for (const Requirement& requirement : requirements_) {
    const auto it = labels.is_object() ? labels.find(requirement.key) : labels.end();
    const bool present = labels.is_object() && it != labels.end() && it->is_string();
    const bool listed = present && requirement.values.contains(it->get_ref<const std::string&>());
    switch (requirement.op) {
      case Operator::kIn:
        if (!listed) return false;
        break;
      case Operator::kNotIn:
        if (listed) return false;
        break;
      case Operator::kExists:
        if (!present) return false;
        break;
      case Operator::kDoesNotExist:
        if (present) return false;
        break;
    }
  }
  return true;
}

}  // namespace lockstep::local
