// The files that tests/golden/generate.py wrote.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/folders.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

// "conv2d_valid" reads tests/golden/conv2d_valid.json.
inline nlohmann::json GoldenFile(const std::string& name) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/" + name + ".json";
  std::ifstream file(path);
  LOCKSTEP_CHECK(file.good(), "{}: cannot be read", path);
  return nlohmann::json::parse(file);
}

inline Shape GoldenShape(const nlohmann::json& tensor) {
  return Shape(tensor.at("shape").get<std::vector<std::int64_t>>());
}

inline std::vector<float> GoldenValues(const nlohmann::json& tensor) {
  return tensor.at("data").get<std::vector<float>>();
}

inline std::vector<std::vector<float>> GoldenTensors(const nlohmann::json& tensors) {
  std::vector<std::vector<float>> values;
  for (const nlohmann::json& tensor : tensors) values.push_back(GoldenValues(tensor));
  return values;
}

}  // namespace lockstep::train
