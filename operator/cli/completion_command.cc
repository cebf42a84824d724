#include "operator/cli/completion_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/printable.h"
#include "operator/cli/completion.h"
#include "operator/cli/exit_codes.h"

namespace lockstep::cli {
namespace {

constexpr char kCall[] = "__complete";
constexpr char kFiles[] = ":files";

constexpr char kBash[] = R"(# bash: source <(lockstep completion bash)
_lockstep() {
  local rest=${COMP_LINE:0:COMP_POINT} words=() n=-1 word line value option
  # Readline splits words at "=", ":" and "@" as well; those that blanks separate are completed.
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ $n == -1 || $rest == [[:blank:]]* ]]; then
      rest=${rest#"${rest%%[![:blank:]]*}"}
      words[++n]=
    fi
    [[ $rest == "$word"* ]] || word=$rest # the cursor is within it
    words[n]+=$word
    rest=${rest:${#word}}
  done
  # Readline replaces $2 only, the end of the last word.
  local kept=$((${#words[n]} - ${#2}))
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      value=${words[n]}
      [[ $value == --*=* ]] && value=${value#*=}
      option=${words[n]%"$value"}
      while IFS= read -r line; do
        # Readline ends a folder with "/" only where it replaces the whole path.
        [[ $kept != "${#option}" && -d $line ]] && line+=/ && compopt -o nospace 2>/dev/null
        line=$option$line
        COMPREPLY+=("${line:kept}")
      done < <(compgen -f -- "$value")
    else
      COMPREPLY+=("${line:kept}")
    fi
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _lockstep lockstep
)";

constexpr char kZsh[] = R"(#compdef lockstep
# zsh: source <(lockstep completion zsh), after compinit
_lockstep() {
  local line
  local -a found
  local files=
  for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :files ]]; then
      files=yes
    elif [[ -n $line ]]; then
      found+=("$line")
    fi
  done
  (( ${#found} )) && compadd -a found
  [[ -n $files ]] && { compset -P '--*='; _files; }
}
compdef _lockstep lockstep
)";

constexpr char kFish[] = R"(# fish: lockstep completion fish | source
function __lockstep_complete
  set -l words (commandline -opc)
  for line in ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path (commandline -ct)
    else
      echo $line
    end
  end
end
complete -c lockstep -f -a '(__lockstep_complete)'
)";

}  // namespace

CLI::App* AddCompletionCommand(CLI::App& app, CompletionOptions& options) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script with which a shell completes lockstep's command lines");
  command->add_option("SHELL", options.shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("bash|zsh|fish")
      ->required();
  return command;
}

ExitCode RunCompletion(const CompletionOptions& options) {
  const char* script = options.shell == "bash" ? kBash : options.shell == "zsh" ? kZsh : kFish;
  fmt::print("{}", script);
  return kExitDone;
}

bool AnswerCompletion(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != kCall) return false;
  const Completions found =
      Complete(app, {arguments.begin() + 1, arguments.end()}, NamesOfCluster());
  for (const std::string& word : found.words) fmt::print("{}\n", Printable(word));
  if (found.files) fmt::print("{}\n", kFiles);
  return true;
}

}  // namespace lockstep::cli
