// The one file that includes libjpeg, which reports errors by longjmp. A function that libjpeg may
// leave so has no objects with destructors.
#include <csetjmp>
#include <cstdio>
// libjpeg's header needs FILE and size_t.
#include <jerror.h>
#include <jpeglib.h>

#include <fmt/format.h>

#include <cstring>

#include "trainer/data/decode_image.h"

namespace lockstep::train {
namespace {

// Limits a file of several scans, whose coefficients (2 bytes each) libjpeg must hold. With full
// colour, that is 44 megapixels.
constexpr long kMostScanMemory = 256L << 20;

struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg knows only this part
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
  bool is_beyond_limit;  // a sound file, perhaps, but not one that is decoded
  bool may_lack_end;     // the marker after the pixels
  bool has_ended;        // the file, before that marker
  bool lacks_pixels;     // they have ended at a marker
};

JpegErrors& ErrorsOf(j_common_ptr info) {
  return *reinterpret_cast<JpegErrors*>(info->err);
}

void Escape(j_common_ptr info) {
  JpegErrors& errors = ErrorsOf(info);
  info->err->format_message(info, errors.message);
  if (info->err->msg_code == JERR_NO_BACKING_STORE) {
    errors.is_beyond_limit = true;
    std::snprintf(errors.message, sizeof errors.message,
                  "its scans take more than %ld bytes of memory", kMostScanMemory);
  }
  std::longjmp(errors.escape, 1);
}

// Refuses what Pillow refuses (TensorFlow also wants the end's marker): a file that is cut short,
// but for its last marker, after which nothing matters. All other warnings are ignored, also that
// the pixels' data end early within a whole file, which leaves a part of the image gray: data sets
// from the Web have such files.
void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  JpegErrors& errors = ErrorsOf(info);
  if (code == JWRN_JPEG_EOF) {
    if (!errors.may_lack_end || errors.lacks_pixels) Escape(info);
    info->err->format_message(info, errors.message);
    errors.has_ended = true;
  } else if (errors.has_ended && (code == JWRN_HIT_MARKER || code == JWRN_EXTRANEOUS_DATA)) {
    // The marker is libjpeg's own: pixels are missing before it, or there is something else.
    std::longjmp(errors.escape, 1);
  } else if (code == JWRN_HIT_MARKER) {
    errors.lacks_pixels = true;  // is said only once
  }
}

// A scan of a hundred bytes can take as long as decoding the whole image, and a file may have any
// number of them.
constexpr int kMostScans = 100;

void OnProgress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  const int scans = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scans <= kMostScans) return;
  JpegErrors& errors = ErrorsOf(info);
  errors.is_beyond_limit = true;
  std::snprintf(errors.message, sizeof errors.message, "found %d scans, expected at most %d", scans,
                kMostScans);
  std::longjmp(errors.escape, 1);
}

struct JpegDecoder {
  jpeg_decompress_struct info;
  JpegErrors errors;
  jpeg_progress_mgr progress;
};

// Returns false with a message if libjpeg refuses the header.
bool ReadJpegHeader(JpegDecoder& decoder, std::span<const std::uint8_t> file, int channels) {
  if (setjmp(decoder.errors.escape) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.progress.progress_monitor = OnProgress;
  decoder.info.progress = &decoder.progress;
  decoder.info.mem->max_memory_to_use = kMostScanMemory;
  jpeg_mem_src(&decoder.info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&decoder.info, TRUE);
  const bool is_cmyk =
      decoder.info.jpeg_color_space == JCS_CMYK || decoder.info.jpeg_color_space == JCS_YCCK;
  decoder.info.out_color_space = is_cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_calc_output_dimensions(&decoder.info);
  return true;
}

bool ReadJpegRows(JpegDecoder& decoder, std::uint8_t* rows, std::size_t row_bytes) {
  if (setjmp(decoder.errors.escape) != 0) return false;
  // Nothing tells of the other files whether a scan is missing, or a part of one.
  decoder.errors.may_lack_end =
      decoder.info.arith_code == FALSE && jpeg_has_multiple_scans(&decoder.info) == FALSE;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = rows + decoder.info.output_scanline * row_bytes;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

// Programs store the inks inverted, as Adobe's did first: 255 is no ink.
void CmykToPixels(int channels, Pixels& image) {
  const std::size_t area = image.height * image.width;
  for (std::size_t i = 0; i < area; ++i) {
    const std::uint8_t* ink = image.bytes.data() + 4 * i;
    const unsigned rgb[] = {ink[0] * ink[3] / 255u, ink[1] * ink[3] / 255u, ink[2] * ink[3] / 255u};
    if (channels == 1) {
      image.bytes[i] = LumaOf(rgb[0], rgb[1], rgb[2]);
      continue;
    }
    for (std::size_t c = 0; c < 3; ++c) image.bytes[3 * i + c] = static_cast<std::uint8_t>(rgb[c]);
  }
  image.channels = static_cast<std::size_t>(channels);
  image.bytes.resize(area * image.channels);
}

absl::Status JpegFault(const JpegDecoder& decoder) {
  if (decoder.errors.base.msg_code == JERR_OUT_OF_MEMORY) {
    return absl::UnavailableError("no memory to decode a JPEG image");
  }
  return absl::DataLossError(fmt::format("{} JPEG image: {}",
                                         decoder.errors.is_beyond_limit ? "too large a" : "damaged",
                                         decoder.errors.message));
}

}  // namespace

absl::Status DecodeJpeg(std::span<const std::uint8_t> file, int channels, Pixels& image) {
  JpegDecoder decoder;
  std::memset(&decoder, 0, sizeof decoder);
  decoder.info.err = jpeg_std_error(&decoder.errors.base);
  decoder.errors.base.error_exit = Escape;
  decoder.errors.base.emit_message = OnMessage;
  const struct Destroyer {  // harmless if nothing was created
    jpeg_decompress_struct& info;
    ~Destroyer() { jpeg_destroy_decompress(&info); }
  } destroyer{decoder.info};
  if (!ReadJpegHeader(decoder, file, channels)) return JpegFault(decoder);
  image.height = decoder.info.output_height;
  image.width = decoder.info.output_width;
  image.channels = static_cast<std::size_t>(decoder.info.out_color_components);
  if (image.height * image.width > kMaxPixels) {
    return absl::DataLossError(
        fmt::format("found a JPEG image of {}x{}, expected at most {} pixels", image.width,
                    image.height, kMaxPixels));
  }
  image.bytes.resize(image.height * image.width * image.channels);
  if (!ReadJpegRows(decoder, image.bytes.data(), image.width * image.channels)) {
    return JpegFault(decoder);
  }
  if (image.channels == 4) CmykToPixels(channels, image);
  return absl::OkStatus();
}

}  // namespace lockstep::train
