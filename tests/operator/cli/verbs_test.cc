#include "operator/cli/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class VerbsTest : public ::testing::Test {
 protected:
  std::string HelpOf(const std::string& name) { return app_.get_subcommand(name)->help(); }

  CLI::App app_{"x", "lockstep"};
  std::vector<Verb> verbs_ = AddVerbs(app_);
};

TEST_F(VerbsTest, TheHelpEndsWithTheExitCodes) {
  EXPECT_THAT(HelpOf("status"),
              ::testing::EndsWith(
                  "\n\n"
                  "Exit codes:\n"
                  "  0                           Success\n" +
                  ExitCodesText({kExitNoAnswer, kExitInternalError, kExitUsage, kExitJobFailed})
                      .substr(std::string("Exit codes:\n").size())));
  EXPECT_THAT(HelpOf("convert"), HasSubstr("of other kinds, are listed on stderr.\n\nExit"));
}

TEST_F(VerbsTest, AVerbEndsWithACodeThatItDeclares) {
  Verb verb = verbs_.front();
  verb.exit_codes = {kExitDone, kExitReplicaFailed};
  verb.run = [] { return kExitDone; };
  EXPECT_EQ(cli::Run(verb), 0);
  verb.run = [] { return ExitCode{42, kExitReplicaFailed.meaning}; };
  EXPECT_EQ(cli::Run(verb), 42);
  verb.run = [] { return kExitNoAnswer; };
  EXPECT_THROW(cli::Run(verb), CheckFailure);
}

TEST_F(VerbsTest, ThePagesTableIsThereForProgramsToo) {
  const auto table = nlohmann::json::parse(ExitCodesJson(verbs_)).at("exit_codes");
  EXPECT_EQ(table.at(0), (nlohmann::json{{"code", 0},
                                         {"last", 0},
                                         {"verbs", table.at(0).at("verbs")},
                                         {"meaning", kExitDone.meaning}}));
  EXPECT_EQ(table.at(0).at("verbs").size(), verbs_.size());
  int of_run = 0;
  for (const auto& row : table) {
    const auto& names = row.at("verbs");
    if (std::ranges::find(names, "run") != names.end()) ++of_run;
    if (row.at("meaning") != kExitReplicaFailed.meaning) continue;
    EXPECT_EQ(row.at("code"), 1);
    EXPECT_EQ(row.at("last"), 255);
  }
  EXPECT_EQ(of_run, 7);
}

TEST_F(VerbsTest, ATypeThatIsTheArgumentsNameIsNotRepeated) {
  EXPECT_THAT(HelpOf("describe"), AllOf(HasSubstr("\n  JOB REQUIRED "), Not(HasSubstr("JOB JOB"))));
  EXPECT_THAT(HelpOf("export"), HasSubstr("\n  FILE REQUIRED "));
}

// As in kubectl.
TEST_F(VerbsTest, OutputHasAShortName) {
  int found = 0;
  for (const Verb& verb : verbs_) {
    const CLI::Option* option = verb.command->get_option_no_throw("--output");
    if (option == nullptr) continue;
    ++found;
    EXPECT_TRUE(option->check_name("-o")) << verb.command->get_name();
  }
  EXPECT_GT(found, 5);
}

// A text that says only that it is one completes to nothing, though it may be a file or a job.
TEST_F(VerbsTest, EachValueSaysWhatItIs) {
  int values = 0;
  for (const Verb& verb : verbs_) {
    for (const CLI::Option* option : verb.command->get_options()) {
      if (option->get_items_expected_max() == 0) continue;
      ++values;
      EXPECT_NE(option->get_type_name(), "TEXT")
          << verb.command->get_name() << ' ' << option->get_name() << ": name its type";
    }
  }
  EXPECT_GT(values, 40);
}

}  // namespace
}  // namespace lockstep::cli
