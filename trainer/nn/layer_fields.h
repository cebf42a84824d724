// Reads one JSON object of `layers` field by field: every fault becomes a line in `errors`, and
// what was not asked for is a fault too.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

struct Extent2d {
  std::int64_t h = 0, w = 0;
};

// A value for a message: bytes that are no UTF-8 are replaced, long values cut.
std::string JsonText(const nlohmann::json& value);

class LayerFields {
 public:
  // `json` must be an object. `json` and `errors` outlive this.
  LayerFields(const nlohmann::json& json, std::string path, std::vector<std::string>& errors)
      : json_(json), path_(std::move(path)), errors_(errors) {}

  bool Has(const std::string& field) { return Find(field) != nullptr; }

  // Each returns the fallback (or zero) if the field is absent or faulty.
  std::int64_t Count(const std::string& field);  // required, at least 1
  Extent2d Extent(const std::string& field);     // required, n or [h, w]
  Extent2d Extent(const std::string& field, Extent2d fallback);
  double Number(const std::string& field, double fallback, double low, double below);
  bool Flag(const std::string& field, bool fallback);
  // `choices` in the order of the message; returns the index of the one found.
  std::size_t Choice(const std::string& field, const std::vector<std::string>& choices,
                     std::size_t fallback);
  std::string Text(const std::string& field);  // "" if absent
  Padding PaddingField();
  Activation ActivationField();

  // After the last field: everything else is unknown.
  void RefuseOthers();
  void Fault(const std::string& field, const std::string& expected);

 private:
  const nlohmann::json* Find(const std::string& field);
  bool IsCount(const nlohmann::json& value) const;

  const nlohmann::json& json_;
  std::string path_;
  std::vector<std::string>& errors_;
  std::set<std::string> known_;
};

}  // namespace lockstep::train
