#include "trainer/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/shallow_json.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the Python package's limit
constexpr int kHeaderLevels = 8;                   // more than any header has
constexpr char kMetadata[] = "__metadata__";
constexpr char kFloat32[] = "F32";

absl::Status DamagedFile(const std::string& file, const std::string& message) {
  return absl::DataLossError(fmt::format("{}: {}", file, message));
}

struct Entry {
  std::string name, type;
  Shape shape;                       // of float32
  std::uint64_t begin = 0, end = 0;  // within the data
};

bool IsIndex(const Json& value) {
  return value.is_number_unsigned();
}

// Parses a shape such as [128, 10] and its size in bytes. Returns false if `value` is not a shape
// or exceeds `limit` bytes.
bool ReadShape(const Json& value, std::uint64_t limit, Shape& shape, std::uint64_t& bytes) {
  if (!value.is_array() || value.size() > 16) return false;
  std::vector<std::int64_t> dims;
  bytes = sizeof(float);
  bool empty = false;
  for (const Json& dim : value) {
    if (!IsIndex(dim) || dim.get<std::uint64_t>() > limit) return false;
    dims.push_back(dim.get<std::int64_t>());
    empty = empty || dims.back() == 0;
    if (!empty &&
        (__builtin_mul_overflow(bytes, dim.get<std::uint64_t>(), &bytes) || bytes > limit)) {
      return false;
    }
  }
  if (empty) bytes = 0;
  shape = Shape(std::move(dims));
  return bytes <= limit;
}

absl::StatusOr<Entry> ReadEntry(const std::string& name, const Json& value,
                                std::uint64_t data_bytes, const std::string& file,
                                OtherTypes others) {
  const auto damaged = [&](const std::string& message) {
    return DamagedFile(file, fmt::format("tensor {}: {}", name, message));
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return damaged(
        fmt::format("found {}, expected dtype, shape and data_offsets", JsonText(value)));
  }
  const Json& type = value["dtype"];
  if (type != kFloat32 && !(type.is_string() && others == OtherTypes::kNamed)) {
    return damaged(fmt::format("dtype is {}, expected \"F32\"", JsonText(type)));
  }
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !IsIndex(offsets[0]) || !IsIndex(offsets[1])) {
    return damaged(fmt::format("data_offsets is {}, expected two offsets", JsonText(offsets)));
  }
  Entry entry{name,
              type.get<std::string>(),
              {},
              offsets[0].get<std::uint64_t>(),
              offsets[1].get<std::uint64_t>()};
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return damaged(fmt::format("data_offsets is {}, expected a range within the {} bytes of data",
                               JsonText(offsets), data_bytes));
  }
  if (type != kFloat32) return entry;
  std::uint64_t shape_bytes = 0;
  if (!ReadShape(value["shape"], data_bytes, entry.shape, shape_bytes) ||
      shape_bytes != entry.end - entry.begin) {
    return damaged(fmt::format("shape is {}, expected one of {} bytes in float32",
                               JsonText(value["shape"]), entry.end - entry.begin));
  }
  return entry;
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const Json& header, std::uint64_t data_bytes,
                                               const std::string& file, OtherTypes others) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, value, data_bytes, file, others));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      return DamagedFile(file, fmt::format("tensor {} begins at byte {} of the data, expected {}",
                                           entry.name, entry.begin, covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return DamagedFile(file,
                       fmt::format("found {} bytes of data, expected {}", data_bytes, covered));
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::string> SafetensorsHeader(const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::set<std::string> names = {kMetadata};
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const auto elements = static_cast<std::size_t>(tensor.shape.elements());
    if (tensor.data.size() != elements) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: found {} values, its shape {} has {}", tensor.name,
                      tensor.data.size(), tensor.shape.ToString(), elements));
    }
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: the name is taken or reserved", tensor.name));
    }
    const std::uint64_t end = offset + elements * sizeof(float);
    header[tensor.name] = {
        {"dtype", kFloat32}, {"shape", tensor.shape.dims()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string json;
  try {
    json = header.dump();
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("a tensor's name is not UTF-8: {}", error.what()));
  }
  json.append((8 - json.size() % 8) % 8, ' ');
  const std::uint64_t length = json.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + json;
}

std::vector<std::span<const std::byte>> SafetensorsPieces(const std::string& header,
                                                          const std::vector<NamedTensor>& tensors) {
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(header))};
  for (const NamedTensor& tensor : tensors) pieces.push_back(std::as_bytes(std::span(tensor.data)));
  return pieces;
}

absl::StatusOr<std::vector<NamedTensor>> ParseSafetensors(std::string_view bytes,
                                                          const std::string& file,
                                                          OtherTypes others) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    return DamagedFile(file, fmt::format("found {} bytes, expected at least 8", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes.remove_prefix(sizeof length);
  if (length > std::min<std::uint64_t>(bytes.size(), kMaxHeader)) {
    return DamagedFile(file,
                       fmt::format("header length at offset 0 is {}, expected at most {}", length,
                                   std::min<std::uint64_t>(bytes.size(), kMaxHeader)));
  }
  const Json header = ParseShallowJson(bytes.substr(0, length), kHeaderLevels);
  if (!header.is_object()) {
    return DamagedFile(
        file,
        fmt::format("the header of {} bytes at offset 8 is not a JSON object of at most {} levels",
                    length, kHeaderLevels));
  }
  const std::string_view data = bytes.substr(length);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Entry> entries,
                            ReadEntries(header, data.size(), file, others));
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : entries) {
    NamedTensor tensor{.name = entry.name, .shape = entry.shape, .data = {}, .type = entry.type};
    if (entry.type == kFloat32 && entry.end > entry.begin) {
      tensor.data.resize((entry.end - entry.begin) / sizeof(float));
      std::memcpy(tensor.data.data(), data.data() + entry.begin, entry.end - entry.begin);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace lockstep::train
