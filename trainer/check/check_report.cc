#include "trainer/check/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/text_table.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kShownFaults = 5;  // of a group; the report as JSON has all

std::string FaultLines(const CheckGroup& group) {
  std::string lines;
  for (std::size_t i = 0; i < std::min(group.faults.size(), kShownFaults); ++i) {
    const CheckFault& fault = group.faults[i];
    lines += fmt::format("FAILED {} {}: {} {}: {}\n", group.name, group.type, fault.test_case,
                         fault.input, fault.problem);
  }
  if (group.faults.size() > kShownFaults) {
    lines += fmt::format("FAILED {} {}: and {} more\n", group.name, group.type,
                         group.faults.size() - kShownFaults);
  }
  return lines;
}

std::string Summary(const CheckReport& report) {
  int cases = 0;
  std::size_t faults = 0;
  for (const CheckGroup& group : report.groups) {
    cases += group.cases;
    faults += group.faults.size();
  }
  if (report.is_right()) return fmt::format("ok: {} cases in {:.1f} s\n", cases, report.seconds);
  const auto failed = std::ranges::count_if(report.measurements, &Measurement::has_failed);
  return fmt::format("FAILED: {} faults in {} cases{}, in {:.1f} s\n", faults, cases,
                     failed == 0 ? "" : fmt::format(" and {} measurements", failed),
                     report.seconds);
}

nlohmann::ordered_json GroupJson(const CheckGroup& group) {
  auto faults = nlohmann::ordered_json::array();
  for (const CheckFault& fault : group.faults) {
    faults.push_back(
        {{"case", fault.test_case}, {"input", fault.input}, {"problem", fault.problem}});
  }
  nlohmann::ordered_json json = {{"name", group.name},
                                 {"type", group.type},
                                 {"cases", group.cases},
                                 {"worst_error", nullptr},
                                 {"worst_case", group.worst_case},
                                 {"tolerance", group.tolerance},
                                 {"ok", group.faults.empty()},
                                 {"faults", std::move(faults)}};
  if (std::isfinite(group.worst)) json["worst_error"] = group.worst;
  return json;
}

}  // namespace

bool CheckReport::is_right() const {
  return std::ranges::all_of(groups,
                             [](const CheckGroup& group) { return group.faults.empty(); }) &&
         std::ranges::none_of(measurements, &Measurement::has_failed);
}

std::string ReportTable(const CheckReport& report) {
  std::string text = fmt::format("device: {}\n", report.device);
  for (const DeviceFact& fact : report.facts) {
    text += fmt::format("{}: {}\n", fact.name, fact.value);
  }
  std::vector<std::vector<std::string>> rows = {
      {"result", "check", "type", "cases", "tolerance", "worst error"}};
  std::string faults;
  for (const CheckGroup& group : report.groups) {
    rows.push_back({group.faults.empty() ? "ok" : "FAILED", group.name, group.type,
                    fmt::format("{}", group.cases), fmt::format("{:.1e}", group.tolerance),
                    fmt::format("{:.1e}", group.worst)});
    faults += FaultLines(group);
  }
  text += "\n" + TextTable(rows, {.gap = 1, .numbers = 1}) + faults;
  if (!report.measurements.empty()) {
    std::string failures;
    std::vector<std::vector<std::string>> speeds = {{"benchmark", "type", "of", "unit", "speed"}};
    for (const Measurement& speed : report.measurements) {
      speeds.push_back({speed.name, speed.type, speed.note, speed.unit,
                        speed.value > 0 ? fmt::format("{:.4g}", speed.value) : "-"});
      if (speed.has_failed) {
        failures +=
            fmt::format("FAILED {} {} in {}: {}\n", speed.name, speed.type, speed.unit, speed.note);
      }
    }
    text += "\n" + TextTable(speeds, {.gap = 1, .numbers = 1}) + failures;
  }
  return text + "\n" + Summary(report);
}

nlohmann::ordered_json ReportJson(const CheckReport& report) {
  auto facts = nlohmann::ordered_json::object();
  for (const DeviceFact& fact : report.facts) facts[fact.name] = fact.value;
  auto checks = nlohmann::ordered_json::array();
  for (const CheckGroup& group : report.groups) checks.push_back(GroupJson(group));
  auto benchmarks = nlohmann::ordered_json::array();
  for (const Measurement& speed : report.measurements) {
    nlohmann::ordered_json json = {{"name", speed.name}, {"type", nullptr},
                                   {"value", nullptr},   {"unit", speed.unit},
                                   {"note", speed.note}, {"ok", !speed.has_failed}};
    if (!speed.type.empty()) json["type"] = speed.type;
    if (speed.value > 0) json["value"] = speed.value;
    benchmarks.push_back(std::move(json));
  }
  return {{"ok", report.is_right()},
          {"backend", report.backend},
          {"device", report.device},
          {"facts", std::move(facts)},
          {"seconds", report.seconds},
          {"checks", std::move(checks)},
          {"benchmarks", std::move(benchmarks)}};
}

}  // namespace lockstep::train
