// The members of an object that is converted to another one.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::cli {

// Consumes the members of an object and notes those that were not taken. `notes` must outlive it.
class Parts {
 public:
  Parts(api::Json object, std::string path, std::vector<std::string>& notes)
      : object_(std::move(object)), path_(std::move(path)), notes_(notes) {
    if (!object_.is_object()) object_ = api::Json::object();
  }

  std::optional<api::Json> Take(const char* name) {
    const auto it = object_.find(name);
    if (it == object_.end()) return std::nullopt;
    api::Json value = std::move(*it);
    object_.erase(it);
    if (value.is_null()) return std::nullopt;
    return value;
  }
  // Copies a field unchanged.
  void Move(const char* name, nlohmann::ordered_json& to) { MoveAs(name, name, to); }
  void MoveAs(const char* name, const char* new_name, nlohmann::ordered_json& to) {
    if (auto value = Take(name)) to[new_name] = nlohmann::ordered_json::parse(value->dump());
  }
  Parts Section(const char* name) {
    return {Take(name).value_or(api::Json::object()), Path(name), notes_};
  }
  void Note(const std::string& text) { notes_.push_back(text); }
  void NoteField(const char* name, const std::string& text) {
    Note(fmt::format("{}: {}", Path(name), text));
  }
  std::string Path(const std::string& name) const {
    return path_.empty() ? name : fmt::format("{}.{}", path_, name);
  }
  const api::Json& rest() const { return object_; }
  std::vector<std::string>& notes() const { return notes_; }
  void NoteRest() {
    for (const auto& [name, value] : object_.items()) {
      Note(fmt::format("{}: has no equivalent in a TrainingJob and is left out", Path(name)));
    }
    object_ = api::Json::object();
  }

 private:
  api::Json object_;
  std::string path_;
  std::vector<std::string>& notes_;
};

}  // namespace lockstep::cli
