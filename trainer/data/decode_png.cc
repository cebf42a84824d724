// The one file that includes libpng, which reports errors by longjmp. A function that libpng may
// leave so has no objects with destructors.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "trainer/data/decode_image.h"

namespace lockstep::train {
namespace {

constexpr png_uint_32 kMaxPngSide = 65'535;
constexpr png_alloc_size_t kMaxPngChunk = png_alloc_size_t{8} << 20;
constexpr png_uint_32 kKeepNoChunks = 1;  // libpng's number for it; 0 is no limit

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest;  // of the file
  char message[128] = {};
  bool lacks_memory = false;  // set at the first allocation that fails

  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void OnPngError(png_structp png, png_const_charp message) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::strncpy(decoder.message, message, sizeof decoder.message - 1);
  png_longjmp(png, 1);
}

png_voidp TakePngMemory(png_structp png, png_alloc_size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) static_cast<PngDecoder*>(png_get_mem_ptr(png))->lacks_memory = true;
  return memory;
}

void FreePngMemory(png_structp, png_voidp memory) {
  std::free(memory);
}

void OnPngWarning(png_structp, png_const_charp) {}

void TakePngBytes(png_structp png, png_bytep to, std::size_t count) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (decoder.rest.size() < count) png_error(png, "the file is cut short");
  std::memcpy(to, decoder.rest.data(), count);
  decoder.rest = decoder.rest.subspan(count);
}

// Reads the header, and asks for 8 bits a channel, no alpha, and gray or RGB.
bool ReadPngHeader(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, TakePngBytes);
  png_set_user_limits(decoder.png, kMaxPngSide, kMaxPngSide);
  png_set_chunk_malloc_max(decoder.png, kMaxPngChunk);
  // Otherwise it inflates and keeps up to a thousand texts before the size of the image is known.
  png_set_chunk_cache_max(decoder.png, kKeepNoChunks);
  png_read_info(decoder.png, decoder.info);
  png_set_strip_16(decoder.png);
  png_set_expand(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool ReadPngRows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

void ConvertChannels(std::size_t channels, Pixels& image) {
  const std::size_t area = image.height * image.width;
  if (channels == 1) {
    for (std::size_t i = 0; i < area; ++i) {
      const std::uint8_t* rgb = image.bytes.data() + 3 * i;
      image.bytes[i] = LumaOf(rgb[0], rgb[1], rgb[2]);
    }
    image.bytes.resize(area);
  } else {
    image.bytes.resize(3 * area);
    for (std::size_t i = area; i-- > 0;) {  // from the end: it is done in place
      const std::uint8_t gray = image.bytes[i];
      std::memset(image.bytes.data() + 3 * i, gray, 3);
    }
  }
  image.channels = channels;
}

absl::Status PngFault(const PngDecoder& decoder) {
  if (decoder.lacks_memory) return absl::UnavailableError("no memory to decode a PNG image");
  return absl::DataLossError(fmt::format("damaged PNG image: {}", decoder.message));
}

}  // namespace

absl::Status DecodePng(std::span<const std::uint8_t> file, int channels, Pixels& image) {
  PngDecoder decoder;
  decoder.rest = file;
  decoder.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, OnPngError, OnPngWarning,
                                         &decoder, TakePngMemory, FreePngMemory);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) return absl::UnavailableError("no memory to decode a PNG image");
  if (!ReadPngHeader(decoder)) return PngFault(decoder);
  image.height = png_get_image_height(decoder.png, decoder.info);
  image.width = png_get_image_width(decoder.png, decoder.info);
  image.channels = png_get_channels(decoder.png, decoder.info);
  const std::size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  if (image.height * image.width > kMaxPixels) {
    return absl::DataLossError(fmt::format("found a PNG image of {}x{}, expected at most {} pixels",
                                           image.width, image.height, kMaxPixels));
  }
  if ((image.channels != 1 && image.channels != 3) || row_bytes != image.width * image.channels) {
    return absl::DataLossError(
        fmt::format("found a PNG image of {} channels, expected 1 or 3", image.channels));
  }
  image.bytes.resize(image.height * row_bytes);
  std::vector<png_bytep> rows(image.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = image.bytes.data() + y * row_bytes;
  if (!ReadPngRows(decoder, rows.data())) return PngFault(decoder);
  const auto wanted = static_cast<std::size_t>(channels);
  if (wanted != image.channels) ConvertChannels(wanted, image);
  return absl::OkStatus();
}

}  // namespace lockstep::train
