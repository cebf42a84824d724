#include "operator/cli/files/set_path.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "api/v1/yaml.h"
#include "base/status.h"

namespace lockstep::cli {
namespace {

// Splits "a.b[0]" into a, b, 0.
std::vector<std::string> Split(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  const auto end_part = [&] {
    if (!part.empty()) parts.push_back(std::exchange(part, ""));
  };
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '\\' && i + 1 < path.size()) {
      part += path[++i];
    } else if (path[i] == '.' || path[i] == '[') {
      end_part();
    } else if (path[i] != ']') {
      part += path[i];
    }
  }
  end_part();
  return parts;
}

std::optional<std::size_t> AsIndex(const std::string& part) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
  return index;
}

absl::StatusOr<nlohmann::json> ParseValue(const std::string& text) {
  if (text.empty()) return nlohmann::json("");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<nlohmann::json> documents,
                            api::ParseYaml(text, "--set"));
  return documents.empty() ? nlohmann::json() : documents.front();
}

}  // namespace

absl::Status ApplySet(const std::string& assignment, nlohmann::json& document) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(
        fmt::format("--set {}: expected PATH=VALUE, like spec.training.epochs=3", assignment));
  }
  const std::vector<std::string> parts = Split(assignment.substr(0, equals));
  if (parts.size() < 2 || (parts[0] != "spec" && parts[0] != "metadata")) {
    return absl::InvalidArgumentError(fmt::format(
        "--set {}: expected a path below spec or metadata, like spec.training.epochs", assignment));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(nlohmann::json value, ParseValue(assignment.substr(equals + 1)));
  nlohmann::json* at = &document;
  std::string so_far;
  for (const std::string& part : parts) {
    if (at->is_array()) {
      const std::optional<std::size_t> index = AsIndex(part);
      if (!index || *index > at->size()) {
        return absl::InvalidArgumentError(
            fmt::format("--set {}: {}: found \"{}\", expected an index from 0 to {}", assignment,
                        so_far, part, at->size()));
      }
      if (*index == at->size()) at->push_back(nlohmann::json());
      at = &(*at)[*index];
    } else if (at->is_object() || at->is_null()) {
      at = &(*at)[part];
    } else {
      return absl::InvalidArgumentError(fmt::format(
          "--set {}: {} is {}, expected an object or a list", assignment, so_far, at->dump()));
    }
    so_far += so_far.empty() ? part : "." + part;
  }
  *at = std::move(value);
  return absl::OkStatus();
}

}  // namespace lockstep::cli
