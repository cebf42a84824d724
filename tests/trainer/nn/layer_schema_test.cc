// The CRD's schema of a layer is made of the table of layers: api/crd/layers.json is LayerSchema().
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/folders.h"
#include "trainer/nn/layer.h"

namespace lockstep::train {
namespace {

constexpr const char* kFile = LOCKSTEP_SOURCE_DIR "/api/crd/layers.json";

// LOCKSTEP_WRITE_GENERATED=1 writes the file instead.
TEST(LayerSchemaTest, TheCommittedFileIsWhatTheTableMakes) {
  const std::string schema = LayerSchema().dump(2) + "\n";
  if (std::getenv("LOCKSTEP_WRITE_GENERATED") != nullptr) {
    std::ofstream(kFile) << schema;
    GTEST_SKIP() << "wrote " << kFile;
  }
  std::ifstream file(kFile);
  const std::string committed((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(committed, schema) << "run LOCKSTEP_WRITE_GENERATED=1 build/release/tests/nn_test "
                                  "--gtest_filter=LayerSchemaTest.*, then tools/gen-crd";
}

TEST(LayerSchemaTest, EveryFieldIsBoundedAndDescribed) {
  const nlohmann::ordered_json properties = LayerSchema().at("properties");
  EXPECT_EQ(properties.at("units").at("minimum"), 1);
  EXPECT_EQ(properties.at("rate").at("exclusiveMaximum"), true);
  EXPECT_EQ(properties.at("padding").at("pattern"), "^(valid|same)$");
  EXPECT_EQ(properties.at("activation").at("enum")[0], "linear");
  EXPECT_EQ(properties.at("filters").at("description"),
            "Conv2D, SeparableConv2D: channels that it gives.");
  for (const auto& [field, schema] : properties.items()) {
    EXPECT_TRUE(schema.contains("description")) << field;
  }
}

}  // namespace
}  // namespace lockstep::train
