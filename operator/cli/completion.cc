#include "operator/cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "absl/strings/str_split.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/shared_options.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/rest/rest_config.h"

namespace lockstep::cli {
namespace {

constexpr Duration kMostWait = std::chrono::seconds(2);  // someone has pressed Tab
const kube::Kind kNamespaceKind{"", "v1", "Namespace", "namespaces", /*namespaced=*/false};

std::vector<std::string> NamesOf(const kube::Kind& kind, const ClusterOptions& options) {
  std::vector<std::string> names;
  const auto access = ReachCluster(options, kMostWait);
  if (!access.ok()) return names;
  kube::ListOptions list;
  if (kind.namespaced) list.namespace_name = access->namespace_name;
  const auto page = access->client->List(kind, list);  // the first page is enough to choose from
  if (!page.ok()) return names;
  for (const kube::Object& object : page->items) names.push_back(kube::Name(object));
  return names;
}

const CLI::App* FindVerb(const CLI::App& app, const std::string& name) {
  const auto verbs =
      app.get_subcommands([&name](const CLI::App* verb) { return verb->get_name() == name; });
  return verbs.empty() ? nullptr : verbs.front();
}

// Returns the option that `word` names and that needs a value; null otherwise.
const CLI::Option* FindOption(const CLI::App& command, const std::string& word) {
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0 ? option : nullptr;
}

// The words before the last one, taken apart.
struct Line {
  std::vector<std::string> positionals;
  const CLI::Option* open = nullptr;  // the option whose value comes next
  ClusterOptions cluster;
};

void SetCluster(const std::string& option, const std::string& value, ClusterOptions& cluster) {
  if (option == "--kubeconfig") cluster.kubeconfig = value;
  if (option == "--context") cluster.context = value;
  if (option == "--namespace") cluster.namespace_name = value;
}

std::string LongName(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

Line TakeApart(const CLI::App& verb, const std::vector<std::string>& words) {
  Line line;
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (line.open != nullptr) {
      SetCluster(LongName(*line.open), word, line.cluster);
      line.open = nullptr;
    } else if (const std::size_t equals = word.find('=');
               word.starts_with("--") && equals != std::string::npos) {
      SetCluster(word.substr(0, equals), word.substr(equals + 1), line.cluster);
    } else if (word.starts_with('-')) {
      line.open = FindOption(verb, word);
    } else {
      line.positionals.push_back(word);
    }
  }
  return line;
}

// Returns the type that the option's declaration names: CLI11 appends what it checks, as in
// "text|json:{text,json}".
std::string TypeOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

// Returns "text", "json" of "text|json"; nothing of other types.
std::vector<std::string> ChoicesOf(const std::string& type) {
  if (type.find('|') == std::string::npos) return {};
  return absl::StrSplit(type, '|');
}

void AddValues(const CLI::Option& option, const ClusterOptions& cluster, const ClusterNames& names,
               Completions& found) {
  const std::string type = TypeOf(option);
  found.words = ChoicesOf(type);
  if (type == kJobType) found.words = names.jobs(cluster);
  if (type == kNamespaceType) found.words = names.namespaces(cluster);
  if (type == kContextType) found.words = names.contexts(cluster);
  found.files = type == kFileType || type == kFolderType;
}

// Adds "--output=json" for "--output=j".
void AddValuesOfOption(const CLI::App& verb, const std::string& last, const Line& line,
                       const ClusterNames& names, Completions& found) {
  const std::string name = last.substr(0, last.find('='));
  const CLI::Option* option = FindOption(verb, name);
  if (option == nullptr) return;
  AddValues(*option, line.cluster, names, found);
  for (std::string& word : found.words) word.insert(0, name + '=');
}

void AddVerbs(const CLI::App& app, Completions& found) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    found.words.push_back(verb->get_name());
  }
}

void AddOptions(const CLI::App& command, Completions& found) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) found.words.push_back("--" + name);
  }
}

void AddPositional(const CLI::App& verb, std::size_t place, const ClusterOptions& cluster,
                   const ClusterNames& names, Completions& found) {
  const auto positionals =
      verb.get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (place < positionals.size()) AddValues(*positionals[place], cluster, names, found);
}

}  // namespace

ClusterNames NamesOfCluster() {
  return {
      .jobs = [](const auto& options) { return NamesOf(controller::kTrainingJobKind, options); },
      .namespaces = [](const auto& options) { return NamesOf(kNamespaceKind, options); },
      .contexts =
          [](const auto& options) {
            const auto contexts = kube::ContextNames(options.kubeconfig);
            return contexts.ok() ? *contexts : std::vector<std::string>();
          },
  };
}

Completions Complete(const CLI::App& app, const std::vector<std::string>& words,
                     const ClusterNames& names) {
  Completions found;
  if (words.empty()) return found;
  const std::string& last = words.back();
  const CLI::App* verb = words.size() > 1 ? FindVerb(app, words.front()) : &app;
  if (verb == nullptr) return found;
  if (verb == &app) {
    if (last.starts_with('-')) {
      AddOptions(app, found);
    } else {
      AddVerbs(app, found);
    }
  } else {
    const Line line = TakeApart(*verb, words);
    if (line.open != nullptr) {
      AddValues(*line.open, line.cluster, names, found);
    } else if (last.starts_with("--") && last.find('=') != std::string::npos) {
      AddValuesOfOption(*verb, last, line, names, found);
    } else if (last.starts_with('-')) {
      AddOptions(*verb, found);
    } else {
      AddPositional(*verb, line.positionals.size(), line.cluster, names, found);
    }
  }
  std::erase_if(found.words, [&last](const std::string& word) { return !word.starts_with(last); });
  std::ranges::sort(found.words);
  return found;
}

}  // namespace lockstep::cli
