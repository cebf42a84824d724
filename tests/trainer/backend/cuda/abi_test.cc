// NVIDIA's headers are compared in one file for each of ours: driver_abi_test.cc has driver_api.h.
// That happens as they compile; here is what a compiler cannot see.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/folders.h"

namespace lockstep::train::cuda {
namespace {

using std::filesystem::path;

std::string Contents(const path& file) {
  std::ifstream stream(file);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// Calls visit(match) for every match of the expression.
template <typename Visit>
void ForEachMatch(const std::string& text, const char* expression, const Visit& visit) {
  const std::regex regex(expression);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    visit(*match);
  }
}

// The names of a header's constants and enumerators.
std::vector<std::string> Constants(const std::string& header) {
  std::vector<std::string> names;
  ForEachMatch(header, "\\bconstexpr [\\w: ]+ (k\\w+)",
               [&](const std::smatch& constant) { names.push_back(constant.str(1)); });
  ForEachMatch(header, "\\benum class (\\w+)[^{]*\\{([^}]*)\\}",
               [&](const std::smatch& enumeration) {
                 ForEachMatch(enumeration.str(2), "\\b(k\\w+)", [&](const std::smatch& enumerator) {
                   names.push_back(enumeration.str(1) + "::" + enumerator.str(1));
                 });
               });
  return names;
}

class AbiTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Folders, AbiTest,
                         ::testing::Values("trainer/backend/cuda", "trainer/comm/nccl"));

TEST_P(AbiTest, EveryConstantIsCompared) {
  const path root = LOCKSTEP_SOURCE_DIR;
  const std::regex is_api("(\\w+)_api\\.h");
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / GetParam())) {
    std::smatch name;
    const std::string file = entry.path().filename();
    if (!std::regex_match(file, name, is_api)) continue;
    const path test = root / "tests" / GetParam() / (name.str(1) + "_abi_test.cc");
    const std::string checked = Contents(test);
    for (const std::string& constant : Constants(Contents(entry.path()))) {
      const std::regex use("LOCKSTEP_SAME_VALUE\\(\\s*" + constant + ",");
      EXPECT_TRUE(std::regex_search(checked, use)) << constant << " of " << file << " in " << test;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace lockstep::train::cuda
