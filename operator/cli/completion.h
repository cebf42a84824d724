// What can follow on a command line: for the scripts of `lockstep completion`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/cli/cluster/cluster_options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is named so
class App;
}

namespace lockstep::cli {

// Names that a cluster or a kubeconfig has. Each returns none if it cannot be read.
struct ClusterNames {
  std::function<std::vector<std::string>(const ClusterOptions&)> jobs, namespaces, contexts;
};

// Asks the cluster itself, for at most 2 s, after a credential plugin has had its time.
ClusterNames NamesOfCluster();

struct Completions {
  std::vector<std::string> words;  // that begin like the last word, sorted
  bool files = false;              // names of files and folders are also expected
};

// `words` are those after the program's name, as blanks separate them; the last one, which may be
// empty, is to be completed.
// Verbs, options and their choices are those that `app` declares; what a value is, the type of its
// option says (shared_options.h).
Completions Complete(const CLI::App& app, const std::vector<std::string>& words,
                     const ClusterNames& names);

}  // namespace lockstep::cli
