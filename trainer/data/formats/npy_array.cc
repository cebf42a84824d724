#include "trainer/data/formats/npy_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 65'536, kMaxRank = 8;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 48;

// Reads the dictionary of a header, which is a literal of Python.
class HeaderText {
 public:
  HeaderText(std::string_view text, std::size_t offset, const std::string& path)
      : text_(text), offset_(offset), path_(path) {}

  absl::StatusOr<NpyHeader> Read() {
    LOCKSTEP_RETURN_IF_ERROR(Expect('{'));
    NpyHeader header;
    bool has_dtype = false, has_order = false, has_shape = false;
    while (!Skip('}')) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view key, ReadText("a key"));
      LOCKSTEP_RETURN_IF_ERROR(Expect(':'));
      if (key == "descr" && !std::exchange(has_dtype, true)) {
        LOCKSTEP_ASSIGN_OR_RETURN(header.dtype, ReadDtype());
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        LOCKSTEP_RETURN_IF_ERROR(ReadOrder());
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        LOCKSTEP_ASSIGN_OR_RETURN(header.shape, ReadShape());
      } else {
        return Fault("descr, fortran_order and shape, each once");
      }
      if (!Skip(',') && Peek() != '}') return Fault("a comma or a closing brace");
    }
    if (!has_dtype || !has_order || !has_shape) {
      return Fault("descr, fortran_order and shape, each once");
    }
    if (Peek() != '\0') return Fault("nothing after the dictionary");
    return header;
  }

 private:
  absl::Status Fault(std::string_view expected) const {
    return absl::DataLossError(
        fmt::format("{}: header at offset {}: found {}, expected {}", path_, offset_ + at_,
                    at_ < text_.size() ? fmt::format("'{}'", Shown()) : "its end", expected));
  }
  std::string Shown() const {
    std::string shown(text_.substr(at_, 16));
    std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return shown;
  }

  // The next character that is not white space; 0 at the end.
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Skip(char wanted) {
    if (Peek() != wanted) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char wanted) {
    return Skip(wanted) ? absl::OkStatus() : Fault(fmt::format("'{}'", wanted));
  }

  absl::StatusOr<std::string_view> ReadText(std::string_view what) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Fault(fmt::format("{} in quotes", what));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Fault("a closing quote");
    const std::string_view read = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return read;
  }

  absl::StatusOr<std::string> ReadDtype() {
    Peek();
    const std::size_t begin = at_;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view text, ReadText("a type"));
    std::string dtype(text);
    if (ItemBytes(dtype) > 0) return dtype;
    at_ = begin;
    return Fault(
        "uint8 ('|u1'), float32 ('<f4') or, for labels, another integer of this byte order; "
        "convert the array with astype");
  }

  absl::Status ReadOrder() {
    Peek();
    if (text_.substr(at_).starts_with("False")) {
      at_ += 5;
      return absl::OkStatus();
    }
    return Fault("False: the last index changes fastest (numpy.ascontiguousarray)");
  }

  absl::StatusOr<Shape> ReadShape() {
    LOCKSTEP_RETURN_IF_ERROR(Expect('('));
    std::vector<std::int64_t> dims;
    std::int64_t elements = 1;
    while (!Skip(')')) {
      Peek();
      std::int64_t dim = 0;
      const char* const end = text_.data() + text_.size();
      const auto read = std::from_chars(text_.data() + at_, end, dim);
      if (read.ec != std::errc() || dim < 1 || __builtin_mul_overflow(elements, dim, &elements) ||
          elements > kMaxBytes || dims.size() == kMaxRank) {
        return Fault("1 to 8 extents of at least 1 and no more than 2^48 elements in all");
      }
      at_ = static_cast<std::size_t>(read.ptr - text_.data());
      dims.push_back(dim);
      if (!Skip(',') && Peek() != ')') return Fault("a comma or a closing parenthesis");
    }
    return Shape(std::move(dims));
  }

  const std::string_view text_;
  const std::size_t offset_;
  const std::string& path_;
  std::size_t at_ = 0;
};

}  // namespace

std::size_t ItemBytes(const std::string& dtype) {
  static constexpr std::array<std::pair<std::string_view, std::size_t>, 9> kBytes = {{{"|u1", 1},
                                                                                      {"|i1", 1},
                                                                                      {"<f4", 4},
                                                                                      {"<i2", 2},
                                                                                      {"<u2", 2},
                                                                                      {"<i4", 4},
                                                                                      {"<u4", 4},
                                                                                      {"<i8", 8},
                                                                                      {"<u8", 8}}};
  const auto found = std::ranges::find(kBytes, std::string_view(dtype),
                                       &std::pair<std::string_view, std::size_t>::first);
  return found == kBytes.end() ? 0 : found->second;
}

std::size_t NpyHeader::bytes() const {
  return static_cast<std::size_t>(shape.elements()) * ItemBytes(dtype);
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const std::uint8_t> file,
                                         const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < 12 || !text.starts_with(kMagic)) {
    return absl::DataLossError(fmt::format(
        "{}: found no NPY header at offset 0 of {} bytes, expected \\x93NUMPY", path, file.size()));
  }
  const std::uint8_t version = file[6];
  if (version < 1 || version > 3 || file[7] != 0) {
    return absl::DataLossError(fmt::format("{}: version at offset 6 is {}.{}, expected 1.0 to 3.0",
                                           path, version, file[7]));
  }
  std::size_t length = file[8] | std::size_t{file[9]} << 8;
  if (version > 1) length |= std::size_t{file[10]} << 16 | std::size_t{file[11]} << 24;
  const std::size_t begin = version > 1 ? 12 : 10;
  if (length > std::min(kMaxHeader, file.size() - begin)) {
    return absl::DataLossError(
        fmt::format("{}: length of the header at offset 8 is {}, expected at most {}", path, length,
                    std::min(kMaxHeader, file.size() - begin)));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(NpyHeader header,
                            HeaderText(text.substr(begin, length), begin, path).Read());
  header.offset = begin + length;
  return header;
}

absl::StatusOr<NpyArray> OpenNpyArray(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(FileBytes file, FileBytes::OpenWhole(path));
  LOCKSTEP_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(file.bytes(), path));
  const std::size_t expected = header.offset + header.bytes();
  if (file.bytes().size() != expected) {
    return absl::DataLossError(
        fmt::format("{}: {}: found {} bytes, expected {} (an array of {} and a header of {})", path,
                    file.bytes().size() < expected ? "cut short" : "bytes after the end",
                    file.bytes().size(), expected, header.shape.ToString(), header.offset));
  }
  return NpyArray{path, std::move(file), std::move(header)};
}

}  // namespace lockstep::train
