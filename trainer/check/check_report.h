// What a check of a device has found.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// One comparison that has failed.
struct CheckFault {
  std::string test_case;  // "ConvSame5x5Relu"
  std::string input;      // "[3,32,7,7], dense"
  std::string problem;    // "dx[17] is 3.1, expected 2.9; …"
};

// Cases of one kind and type. Errors are those of Difference.
struct CheckGroup {
  std::string name;  // "Conv2D"
  std::string type;  // "float32"
  double tolerance = 0;
  int cases = 0;
  double worst = 0;
  std::string worst_case;
  std::vector<CheckFault> faults;
};

struct Measurement {
  std::string name;  // "copy", "matmul", "core-cnn, batch 128"
  std::string type;  // "float32"; empty: of no type
  double value = 0;  // 0: not measured, as `note` says
  std::string unit;  // "GB/s"
  std::string note;  // "4096 x 4096 x 4096"
  // It was not measured, and not for lack of memory: a fault of the device.
  bool has_failed = false;
};

struct CheckReport {
  std::string backend, device;
  std::vector<DeviceFact> facts;
  std::vector<CheckGroup> groups;
  std::vector<Measurement> measurements;
  double seconds = 0;

  bool is_right() const;  // no group has a fault, and no measurement has failed
};

// A line for each group and each measurement, one for each of a group's first faults, and one for
// each measurement that has failed.
std::string ReportTable(const CheckReport& report);

// {"ok":…, "backend":…, "device":…, "facts":{"driver":…, …}, "seconds":…,
//  "checks":[{"name":…, "type":…, "cases":…, "worst_error":…, "worst_case":…, "tolerance":…,
//             "ok":…, "faults":[{"case":…, "input":…, "problem":…}, …]}, …],
//  "benchmarks":[{"name":…, "type":…, "value":…, "unit":…, "note":…, "ok":…}, …]}
// "worst_error" is null where a value was not a number.
nlohmann::ordered_json ReportJson(const CheckReport& report);

}  // namespace lockstep::train
