// What the checks of a section of a TrainingJob share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/suggest.h"

namespace lockstep::api {

// Collects errors below one path. Not thread-safe.
class Section {
 public:
  Section(std::string path, std::vector<FieldError>* errors)
      : path_(std::move(path)), errors_(errors) {}

  void Fault(std::string_view field, std::string message) {
    errors_->push_back({fmt::format("{}.{}", path_, field), std::move(message)});
  }

  void OneOf(std::string_view field, std::string_view value,
             std::span<const std::string_view> known) {
    if (std::ranges::find(known, value) != known.end()) return;
    Fault(field, fmt::format("found \"{}\"; {}", value, SuggestName(value, known)));
  }

  // `name_a` and `name_b` are fields of `field`, or of the section itself if `field` is empty.
  void ExactlyOne(std::string_view field, std::string_view name_a, bool has_a,
                  std::string_view name_b, bool has_b) {
    if (has_a != has_b) return;
    errors_->push_back(
        {field.empty() ? path_ : fmt::format("{}.{}", path_, field),
         fmt::format("found {} {} {} {}, expected exactly one", has_a ? "both" : "neither", name_a,
                     has_a ? "and" : "nor", name_b)});
  }

  // Requires an absolute path, since the trainer's working directory is unspecified.
  void Absolute(std::string_view field, const std::string& path) {
    if (path.empty() || path.starts_with('/')) return;
    Fault(field, fmt::format("found \"{}\", expected an absolute path in the container", path));
  }

 private:
  std::string path_;
  std::vector<FieldError>* errors_;
};

}  // namespace lockstep::api
