#include "operator/cli/files/job_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/validate.h"
#include "api/v1/validate_layers.h"
#include "api/v1/yaml.h"
#include "base/read_file.h"
#include "base/status.h"
#include "operator/cli/files/set_path.h"

namespace lockstep::cli {
namespace {

using kube::Object;

constexpr char kData[] = "data";
constexpr std::size_t kLongestKey = 253;

constexpr const char* kCompanions[] = {"ConfigMap", "Secret", "PersistentVolumeClaim"};

std::string KindOf(const Object& document) {
  if (!document.is_object()) return fmt::format("a {}", document.type_name());
  const std::string kind =
      document.contains("kind") && document["kind"].is_string() ? document["kind"] : "";
  return kind.empty() ? "an object without kind" : kind;
}

bool IsCompanion(const std::string& kind) {
  return std::any_of(std::begin(kCompanions), std::end(kCompanions),
                     [&](const char* companion) { return kind == companion; });
}

// Removes members that are null, as an API server does. What reads a template tests only whether a
// member is there.
void DropNulls(Object& value) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      it = it->is_null() ? value.erase(it) : std::next(it);
    }
  }
  if (value.is_structured()) {
    for (Object& member : value) DropNulls(member);
  }
}

absl::StatusOr<api::TrainingJob> ReadJob(Object document, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) LOCKSTEP_RETURN_IF_ERROR(ApplySet(set, document));
  LOCKSTEP_ASSIGN_OR_RETURN(api::TrainingJob job, api::TrainingJobFromJson(document));
  for (auto& [role, replicas] : job.spec.replica_specs) {
    Object tmpl = *replicas.tmpl;
    DropNulls(tmpl);
    replicas.tmpl = std::move(tmpl);
  }
  std::vector<FieldError> faults = api::ValidateNew(api::WithDefaults(job));
  if (job.spec.training) {
    // ValidateLayers says more about them. An operator has only Validate, which knows less, so that
    // it accepts the layers of a newer CRD.
    std::erase_if(faults, [](const FieldError& fault) {
      return fault.path.find("model.layers[") != std::string::npos;
    });
    std::ranges::move(api::ValidateLayers(*job.spec.training, "spec.training"),
                      std::back_inserter(faults));
  }
  LOCKSTEP_RETURN_IF_ERROR(api::ToStatus(faults));
  return job;
}

// As an API server: it takes padded base64 only, and text of any length in several lines.
bool IsBase64(const std::string& text) {
  std::string bytes;
  const auto characters =
      std::ranges::count_if(text, [](char c) { return c != '\n' && c != '\r'; });
  return characters % 4 == 0 && absl::Base64Unescape(text, &bytes);
}

bool IsKey(const std::string& key) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !key.empty() && key.size() <= kLongestKey && key != "." && !key.starts_with("..") &&
         std::ranges::all_of(key, is_part);
}

// Checks a map of texts. Messages do not repeat a value, which may be a secret. As an API server,
// takes null for an empty text.
void CheckTexts(Object& document, const char* field, bool encoded, const std::string& what,
                std::vector<FieldError>& faults) {
  if (!document.contains(field) || document[field].is_null()) return;
  const std::string path = fmt::format("{}: {}", what, field);
  if (!document[field].is_object()) {
    faults.push_back({path, fmt::format("found a {}, expected an object of texts",
                                        document[field].type_name())});
    return;
  }
  for (auto& [key, value] : document[field].items()) {
    const std::string of_key = fmt::format("{}.{}", path, key);
    if (value.is_null()) value = "";
    if (!IsKey(key)) {
      faults.push_back({of_key, "expected a key of letters, digits, '-', '_' and '.'"});
    } else if (!value.is_string()) {
      faults.push_back({of_key, fmt::format("found a {}, expected a text: put it in quotes",
                                            value.type_name())});
    } else if (encoded && !IsBase64(value.get_ref<const std::string&>())) {
      faults.push_back({of_key,
                        "found a text that is not base64, which data of a Secret and "
                        "binaryData are"});
    }
  }
}

// What an API server refuses. Whoever reads a companion later relies on it.
absl::Status CheckCompanion(Object& document) {
  const std::string kind = KindOf(document);
  if (!document.contains("metadata") || kube::Name(document).empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: metadata.name is missing", kind));
  }
  const std::string what = fmt::format("{} \"{}\"", kind, kube::Name(document));
  std::vector<FieldError> faults;
  if (!document.contains("apiVersion") || document["apiVersion"] != "v1") {
    faults.push_back({what + ": apiVersion", "expected v1"});
  }
  if (kind == "Secret") {
    CheckTexts(document, kData, /*encoded=*/true, what, faults);
    CheckTexts(document, "stringData", /*encoded=*/false, what, faults);
  } else if (kind == "ConfigMap") {
    CheckTexts(document, kData, /*encoded=*/false, what, faults);
    CheckTexts(document, "binaryData", /*encoded=*/true, what, faults);
  }
  return api::ToStatus(faults);
}

struct Documents {
  std::vector<Object> jobs;  // at least one
  std::vector<Object> companions;
};

// Errors name the file.
absl::StatusOr<Documents> ParseDocuments(const std::string& text, const std::string& source) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Object> documents, api::ParseYaml(text, source));
  Documents sorted;
  std::vector<std::string> found;
  for (Object& document : documents) {
    const std::string kind = KindOf(document);
    found.push_back(kind);
    if (kind == api::kKind) {
      sorted.jobs.push_back(std::move(document));
    } else if (IsCompanion(kind)) {
      LOCKSTEP_RETURN_IF_ERROR(InFile(source, CheckCompanion(document)));
      sorted.companions.push_back(std::move(document));
    } else {
      return absl::InvalidArgumentError(
          fmt::format("{}: document {}: found {}, expected a TrainingJob or one of its {}s", source,
                      found.size(), kind, fmt::join(kCompanions, "s, ")));
    }
  }
  if (sorted.jobs.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: found {}, expected a TrainingJob", source,
                    found.empty() ? "nothing" : fmt::format("{}", fmt::join(found, ", "))));
  }
  return sorted;
}

}  // namespace

absl::Status InFile(const std::string& source, const absl::Status& status) {
  std::string message(status.message());
  std::string out;
  for (std::size_t start = 0; start <= message.size();) {
    const std::size_t end = std::min(message.find('\n', start), message.size());
    out += fmt::format("{}{}: {}", out.empty() ? "" : "\n", source,
                       message.substr(start, end - start));
    start = end + 1;
  }
  return absl::Status(status.code(), out);
}

absl::StatusOr<JobFile> ParseJobFile(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& sets) {
  LOCKSTEP_ASSIGN_OR_RETURN(Documents documents, ParseDocuments(text, source));
  if (documents.jobs.size() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: found {} TrainingJobs, expected one", source, documents.jobs.size()));
  }
  absl::StatusOr<api::TrainingJob> job = ReadJob(std::move(documents.jobs.front()), sets);
  if (!job.ok()) return InFile(source, job.status());
  for (Object& object : documents.companions) {
    object["metadata"]["namespace"] = job->metadata.namespace_name;
  }
  return JobFile{source, *std::move(job), std::move(documents.companions)};
}

std::string SourceOf(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  if (path == "-") {
    return std::string((std::istreambuf_iterator<char>(std::cin)),
                       std::istreambuf_iterator<char>());
  }
  return ReadFile(path, "the job");
}

absl::StatusOr<JobFile> LoadJobFile(const JobFileOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadInput(options.file));
  return ParseJobFile(text, SourceOf(options.file), options.sets);
}

absl::StatusOr<std::vector<CheckedJob>> CheckJobFile(const JobFileOptions& options) {
  const std::string source = SourceOf(options.file);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadInput(options.file));
  LOCKSTEP_ASSIGN_OR_RETURN(const Documents documents, ParseDocuments(text, source));
  const bool is_one = documents.jobs.size() == 1;
  std::vector<CheckedJob> checked;
  for (const Object& document : documents.jobs) {
    absl::StatusOr<api::TrainingJob> job = ReadJob(document, options.sets);
    std::string name = job.ok() ? job->metadata.name : kube::Name(document);
    const std::string where =
        is_one ? source
               : fmt::format("{}: TrainingJob {}", source, name.empty() ? "without a name" : name);
    checked.push_back({std::move(name), job.ok() ? absl::OkStatus() : InFile(where, job.status())});
  }
  return checked;
}

}  // namespace lockstep::cli
