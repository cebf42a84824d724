#include "api/v1/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "api/v1/yaml_scalar.h"
#include "base/printable.h"

namespace lockstep::api {
namespace {

using ::testing::HasSubstr;

// The only document of `text`.
Json Parse(std::string_view text) {
  const auto documents = ParseYaml(text, "job.yaml");
  EXPECT_TRUE(documents.ok()) << documents.status();
  if (!documents.ok() || documents->size() != 1) return "not one document";
  return documents->front();
}

std::string Fault(std::string_view text) {
  const auto documents = ParseYaml(text, "job.yaml");
  return documents.ok() ? "" : std::string(documents.status().message());
}

TEST(YamlTest, PlainScalarsAreReadAsKubectlReadsThem) {
  struct Case {
    const char* text;
    Json value;
  };
  const Case cases[] = {{"", nullptr},
                        {"~", nullptr},
                        {"null", nullptr},
                        {"NULL", nullptr},
                        {"true", true},
                        {"True", true},
                        {"FALSE", false},
                        {"y", true},
                        {"yes", true},
                        {"On", true},
                        {"N", false},
                        {"No", false},
                        {"OFF", false},
                        {"tRue", "tRue"},
                        {"yEs", "yEs"},
                        {"oN", "oN"},
                        {"none", "none"},
                        {"0", 0},
                        {"-17", -17},
                        {"+5", 5},
                        {"0400", 256},
                        {"-0755", -493},
                        {"+00", 0},
                        {"08", 8},
                        {"-018", -18},
                        {"0400.5", 400.5},
                        {"0400e1", 4000.0},
                        {"0o17", 15},
                        {"-0O17", -15},
                        {"0xfF", 255},
                        {"-0X10", -16},
                        {"0b11", 3},
                        {"0B11", 3},
                        {"0x", "0x"},
                        {"0b2", "0b2"},
                        {"0o8", "0o8"},
                        {"1_000", 1000},
                        {"-1_000", -1000},
                        {"0_7", 7},
                        {"0x_f", 15},
                        {"1_0.5", 10.5},
                        {"0x_", "0x_"},
                        {"_1", "_1"},
                        {"._5", "._5"},
                        {"1_a", "1_a"},
                        {"0.001", 0.001},
                        {".5", 0.5},
                        {"5.", 5.0},
                        {"1e3", 1000.0},
                        {"-1.5E-3", -0.0015},
                        {"1e", "1e"},
                        {".", "."},
                        {"-", "-"},
                        {"+", "+"},
                        {"1.2.3", "1.2.3"},
                        {"12:30", "12:30"},
                        {"2026-01-01", "2026-01-01"},
                        {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
                        {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()}};
  for (const Case& c : cases) {
    const std::optional<Json> value = ResolvePlainScalar(c.text);
    ASSERT_TRUE(value.has_value()) << c.text;
    EXPECT_EQ(*value, c.value) << c.text;
    EXPECT_EQ(value->is_number_float(), c.value.is_number_float()) << c.text;
  }
}

TEST(YamlTest, WhatJsonCannotHoldIsRefused) {
  for (const char* text :
       {".nan", ".inf", "-.INF", "+.inf", "1e999", "18446744073709551616", "-9223372036854775809",
        "0xfffffffffffffffff", "02000000000000000000000"}) {
    EXPECT_EQ(ResolvePlainScalar(text), std::nullopt) << text;
  }
  EXPECT_EQ(Fault("a:\n  b: .nan\n"), "job.yaml:2:6: found .nan, which JSON cannot hold");
}

TEST(YamlTest, WhatIsQuotedIsAString) {
  EXPECT_EQ(Parse("a: \"1\"\nb: 'true'\nc: \"null\"\nd: !!str 2\ne: |-\n  3\nf: !!float 2\n"
                  "g: \"no\"\nh: !!str on\n"),
            (Json{{"a", "1"},
                  {"b", "true"},
                  {"c", "null"},
                  {"d", "2"},
                  {"e", "3"},
                  {"f", 2.0},
                  {"g", "no"},
                  {"h", "on"}}));
}

TEST(YamlTest, ReadsBlockAndFlowCollections) {
  EXPECT_EQ(Parse("metadata: {name: mnist}\n"
                  "spec:\n"
                  "  replicas: 2  # a comment\n"
                  "  args:\n"
                  "  - --flag\n"
                  "  - |\n"
                  "    two\n"
                  "    lines\n"),
            (Json{{"metadata", {{"name", "mnist"}}},
                  {"spec", {{"replicas", 2}, {"args", {"--flag", "two\nlines\n"}}}}}));
}

TEST(YamlTest, KeysAreTakenAsText) {
  EXPECT_EQ(Parse("1: a\ntrue: b\n\"x y\": c\n"), (Json{{"1", "a"}, {"true", "b"}, {"x y", "c"}}));
}

TEST(YamlTest, EmptyDocumentsAreLeftOut) {
  const auto documents = ParseYaml("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n", "x");
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ(*documents, (std::vector<Json>{{{"a", 1}}, {{"b", 2}}}));
  EXPECT_TRUE(ParseYaml("", "x")->empty());
  EXPECT_TRUE(ParseYaml("# nothing\n", "x")->empty());
}

TEST(YamlTest, AliasesStandForTheirAnchors) {
  EXPECT_EQ(Parse("a: &t {x: [1, 2]}\nb: *t\nc: [*t]\n"),
            (Json{{"a", {{"x", {1, 2}}}}, {"b", {{"x", {1, 2}}}}, {"c", {{{"x", {1, 2}}}}}}));
}

// Also what tests/python/job_test.py expects of the Python client.
TEST(YamlTest, MergeKeysFillInWhatAMapLacks) {
  struct Case {
    const char* text;
    Json value;
  };
  const Case cases[] = {
      {"<<: {x: 1, q: 2}\nx: 3\n", {{"x", 3}, {"q", 2}}},
      {"x: 3\n<<: {q: 2}\n", {{"x", 3}, {"q", 2}}},
      {"<<: [{x: 1}, {x: 2, q: [3]}]\n", {{"x", 1}, {"q", {3}}}},
      {"{<<: {}, x: 1}", {{"x", 1}}},
      {"<<: []\nx: 1\n", {{"x", 1}}},
      {"!!merge <<: {x: 1}\n", {{"x", 1}}},
      {"\"<<\": {x: 1}\n", {{"<<", {{"x", 1}}}}},
      {"!!str <<: 1\n", {{"<<", 1}}},
      {"a: <<\n", {{"a", "<<"}}},
      {"a: &a {x: 1, q: 2}\nb: {<<: *a, x: 3}\nc: {<<: [{z: 5}, *a]}\n",
       {{"a", {{"x", 1}, {"q", 2}}},
        {"b", {{"x", 3}, {"q", 2}}},
        {"c", {{"x", 1}, {"q", 2}, {"z", 5}}}}},
      {"a: {b: &b {<<: &c {x: 1, q: 2}, x: 3}}\nd: {<<: *b, q: 4}\ne: *b\nf: *c\n",
       {{"a", {{"b", {{"x", 3}, {"q", 2}}}}},
        {"d", {{"x", 3}, {"q", 4}}},
        {"e", {{"x", 3}, {"q", 2}}},
        {"f", {{"x", 1}, {"q", 2}}}}}};
  for (const Case& c : cases) EXPECT_EQ(Parse(c.text), c.value) << c.text;
}

TEST(YamlTest, MergeKeysThatReadersDoNotAgreeOnAreRefused) {
  const std::string expected = " for <<, expected a map or a list of maps";
  EXPECT_EQ(Fault("a: 1\n<<: 3\n"), "job.yaml:2:5: found a value of type number" + expected);
  EXPECT_EQ(Fault("<<: ~\n"), "job.yaml:1:5: found a value of type null" + expected);
  EXPECT_EQ(Fault("<<: [{x: 1}, [2]]\n"), "job.yaml:1:5: found a value of type array" + expected);
  EXPECT_EQ(Fault("a: &a [{x: 1}]\nb: {<<: *a}\n"),
            "job.yaml:2:9: found a value of type array" + expected);
  EXPECT_EQ(Fault("<<: {x: 1}\n<<: {y: 1}\n"), "job.yaml:2:1: duplicate key \"<<\"");
  EXPECT_EQ(Fault("<<: {x: 1}\nx: 2\nx: 3\n"), "job.yaml:3:1: duplicate key \"x\"");
  EXPECT_EQ(Fault("x: 1\n<<: [{y: 2}, {x: 3}]\n"),
            "job.yaml:2:5: found << behind \"x\", which it has, too; expected it first: kubectl "
            "would let it replace \"x\"");
  EXPECT_EQ(Fault("a: &a {<<: *a}\n"), "job.yaml:1:12: found an alias inside what it stands for");
}

TEST(YamlTest, AnchorsEndWithTheirDocument) {
  EXPECT_THAT(Fault("a: &t 1\n---\nb: *t\n"), HasSubstr("job.yaml:3:"));
}

TEST(YamlTest, FaultsNameLineAndColumn) {
  EXPECT_EQ(Fault("a: 1\nb: 2\na: 3\n"), "job.yaml:3:1: duplicate key \"a\"");
  EXPECT_EQ(Fault("a: {x: 1, x: 2}\n"), "job.yaml:1:11: duplicate key \"x\"");
  EXPECT_EQ(Fault("? [a]\n: 1\n"), "job.yaml:1:3: found a collection as a key, expected a name");
  EXPECT_EQ(Fault("~: 1\n"), "job.yaml:1:1: found a null key, expected a name");
  EXPECT_EQ(Fault("a: &t [1, *t]\n"), "job.yaml:1:11: found an alias inside what it stands for");
  EXPECT_EQ(Fault("a: !!int x\n"),
            "job.yaml:1:4: found tag tag:yaml.org,2002:int on \"x\", which it does not fit");
  EXPECT_EQ(Fault("a: !secret {}\n"), "job.yaml:1:4: found tag !secret, expected none");
  EXPECT_THAT(Fault("a: [1\nb: 2\n"), HasSubstr("job.yaml:2:"));
  EXPECT_THAT(Fault("a:\n\t- b\n"), HasSubstr("job.yaml:2:2:"));
  EXPECT_THAT(Fault("a: *none\n"), HasSubstr("job.yaml:1:4:"));
}

TEST(YamlTest, ABillionLaughsStop) {
  std::string text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 10; ++i) {
    text += fmt::format("a{}: &a{}\n", i, i);
    for (int j = 0; j < 9; ++j) text += fmt::format("- *a{}\n", i - 1);
  }
  EXPECT_THAT(Fault(text), HasSubstr("too large with its anchors and aliases expanded"));
}

// Each map has but one key, so only the work and what is held meanwhile would grow.
TEST(YamlTest, ABillionMergesStop) {
  std::string text = "a0: &a0 {x: lol}\n";
  for (int i = 1; i < 10; ++i) {
    text += fmt::format("a{}: &a{}\n  <<:\n", i, i);
    for (int j = 0; j < 9; ++j) text += fmt::format("  - *a{}\n", i - 1);
  }
  EXPECT_THAT(Fault(text), HasSubstr("too large with its anchors and aliases expanded"));
}

TEST(YamlTest, ALongScalarManyTimesStops) {
  std::string text = "a: &a " + std::string(1'000'000, 'x') + "\nb:\n";
  for (int i = 0; i < 100; ++i) text += "- *a\n";
  EXPECT_THAT(Fault(text), HasSubstr("too large with its anchors and aliases expanded"));
}

// Every anchor keeps a copy of all that is nested in it.
TEST(YamlTest, ManyAnchorsAroundALongScalarStop) {
  std::string text;
  for (int i = 0; i < 95; ++i) text += fmt::format("&a{} [", i);
  text += std::string(400'000, 'x') + std::string(95, ']');
  EXPECT_THAT(Fault(text), HasSubstr("too large with its anchors and aliases expanded"));
}

TEST(YamlTest, DepthIsBounded) {
  EXPECT_EQ(Fault(std::string(100, '[') + std::string(100, ']')), "");
  EXPECT_THAT(Fault(std::string(101, '[') + std::string(101, ']')),
              HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(Fault(std::string(200'000, '[')), HasSubstr("job.yaml:1:"));
  // Each line is shallow; what it stands for is not.
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) text += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  EXPECT_THAT(Fault(text), HasSubstr("nested deeper than 100 levels"));
  text = "a0: &a0 {x: 1}\n";
  for (int i = 1; i < 200; ++i) text += fmt::format("a{0}: &a{0} {{<<: {{y: *a{1}}}}}\n", i, i - 1);
  EXPECT_THAT(Fault(text), HasSubstr("nested deeper than 100 levels"));
}

TEST(YamlTest, BytesThatAreNoTextAreRefusedWhereTheyStand) {
  for (const char* bad :
       {"a: 1\nb: \xff", "a: 1\nb: \"\xc3\x28\"", "a: 1\n\xff\xfe: b", "- a\n- \xed\xa0\x80"}) {
    const auto documents = ParseYaml(bad, "job.yaml");
    ASSERT_FALSE(documents.ok()) << bad;
    EXPECT_THAT(std::string(documents.status().message()), HasSubstr("job.yaml:2:"));
    EXPECT_THAT(std::string(documents.status().message()), HasSubstr("not UTF-8"));
  }
  EXPECT_TRUE(ParseYaml("a: é€😀", "job.yaml").ok());
}

// U+0085 and U+00A0, for which YAML has escapes of their own.
TEST(YamlTest, ReadsTheEscapesOfYaml) {
  EXPECT_EQ(Parse(R"("\_: é\_\_€\N😀\N": "\_")"),
            (Json{{"\u00a0: é\u00a0\u00a0€\u0085😀\u0085", "\u00a0"}}));
  EXPECT_THAT(Fault("- \"\\_\"\n- \xa0\n"),
              HasSubstr("job.yaml:1:3: found bytes that are not UTF-8"))
      << "what else is in the text cannot be told from it";
}

TEST(YamlTest, ReadsThePairsOfEscapesOfJson) {
  EXPECT_EQ(Parse(R"({"\ud83d\ude00": ["\uD83D\uDE00\\ud83d\udbff\udfff\"", "\ud800\udc00"]})"),
            (Json{{"😀", {"😀\\ud83d\U0010FFFF\"", "\U00010000"}}}));
  EXPECT_EQ(Parse(R"(a: '\ud83d\ude00')"), (Json{{"a", R"(\ud83d\ude00)"}}));
  EXPECT_THAT(Fault(R"({"a": "\ud83d"})"), HasSubstr("job.yaml:1:"));
  EXPECT_THAT(Fault(R"({"a": "\ud83d\ude00", "a": 1})"), HasSubstr("duplicate key \"a\""));
}

TEST(YamlTest, ADocumentThatNothingStartsIsRefused) {
  for (const char* bad : {",V", "]", "}", "a: 1\n---\n,"}) {
    EXPECT_THAT(Fault(bad), HasSubstr("job.yaml:")) << bad;
  }
  EXPECT_EQ(ParseYaml("---\n---\n--- 1\n...\n--- 2\n", "job.yaml")->size(), 2U);
}

TEST(YamlTest, SizeIsBounded) {
  EXPECT_EQ(Fault(std::string(5'000'000, ' ')),
            "job.yaml: found 5000000 bytes, expected at most 4194304");
}

TEST(YamlTest, WritesWhatPeopleRead) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(R"({
    "kind": "Pod", "metadata": {"name": "mnist-worker-0", "labels": {}},
    "spec": {"containers": [{"image": "docker.io/x:1", "args": ["--a=b", "1", "true", "no", ""],
             "env": [{"name": "TF_CONFIG", "value": "{\"a\":1}"}], "n": 2, "f": 0.001}]}})");
  EXPECT_EQ(ToYaml(json),
            "kind: Pod\n"
            "metadata:\n"
            "  name: mnist-worker-0\n"
            "  labels: {}\n"
            "spec:\n"
            "  containers:\n"
            "  - image: docker.io/x:1\n"
            "    args:\n"
            "    - --a=b\n"
            "    - \"1\"\n"
            "    - \"true\"\n"
            "    - \"no\"\n"
            "    - \"\"\n"
            "    env:\n"
            "    - name: TF_CONFIG\n"
            "      value: '{\"a\":1}'\n"
            "    \"n\": 2\n"
            "    f: 0.001\n");
}

TEST(YamlTest, WhatActsOnATerminalIsWrittenEscaped) {
  const std::string all =
      "a\x1b\x7f\u009b\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069ö"
      "\u2065";
  const std::string text = ToYaml(nlohmann::ordered_json{{all, all}});
  EXPECT_EQ(Printable(text), text);
  EXPECT_THAT(text, HasSubstr("\\x7F"));
  EXPECT_THAT(text, HasSubstr("\\u061C"));
  EXPECT_THAT(text, HasSubstr("\\u202E\\u2066"));
  EXPECT_THAT(text, HasSubstr("ö\u2065\""));
  EXPECT_EQ(ParseYaml(text, "written")->at(0), (Json{{all, all}}));
}

TEST(YamlTest, WhatIsWrittenReadsBackAsItself) {
  const Json strings = {
      "",      " a ",      "a: b",   "a #b",   "- a",        "~",    "null",       "Yes",    "0x1",
      "y",     "N",        "no",     "on",     "Off",        "-1_0", "0_",         "--on",   "nO",
      "1e3",   ".5",       "-",      "a:",     "\"",         "'",    "it's \"x\"", "a\nb\n", "\n",
      "\t",    "\x01",     "é€😀",   "\\n",    "{a}",        "[a]",  "*a",         "&a",     "!a",
      "%a",    "@a",       "`a",     "? a",    "---",        "...",  "a, b",       "<<",     "=",
      "1_000", "12:30:45", "\x7f",   "\u2028", "a\rb",       "--",   "--a",        "--1",    "/",
      "\r\n",  "#",        "\u0085", "\ufeff", "2026-01-01", "0b1",  "\u00a0"};
  Json json = {{"strings", strings},
               {"numbers", {0, -1, 1e-7, 0.1, 1e300, -0.0, 18'446'744'073'709'551'615U}},
               {"others", {nullptr, true, false, Json::object(), Json::array()}},
               {"nested", {{{{"a", {1, {2, {{"b", 3}}}}}}}}}};
  for (const Json& key : strings) json["keys"][key.get<std::string>()] = 1;
  const std::string text = ToYaml(nlohmann::ordered_json(json));
  const auto documents = ParseYaml(text, "written");
  ASSERT_TRUE(documents.ok()) << documents.status() << "\n" << text;
  EXPECT_EQ(documents->at(0), json) << text;
}

}  // namespace
}  // namespace lockstep::api
