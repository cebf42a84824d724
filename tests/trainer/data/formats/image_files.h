// Builds PNG and JPEG images for tests.
#pragma once

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <string>
// libjpeg's header needs FILE and size_t.
#include <jpeglib.h>

#include "tests/trainer/data/formats/idx_files.h"

namespace lockstep::train {

inline std::string PngChunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return BigEndian(static_cast<std::uint32_t>(content.size())) + checked +
         BigEndian(static_cast<std::uint32_t>(crc));
}

struct PngForm {
  std::uint32_t width = 1, height = 1;
  char depth = 8, color = 2;  // of color: 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGBA
};

// `rows` are the rows' bytes, none filtered. `chunks` stand before the pixels: a palette, say.
inline std::string PngFile(const PngForm& form, const std::string& rows,
                           const std::string& chunks = "") {
  std::string filtered;
  const std::size_t row_bytes = rows.size() / form.height;
  for (std::size_t y = 0; y < form.height; ++y) {
    filtered += '\0';  // no filter
    filtered += rows.substr(y * row_bytes, row_bytes);
  }
  uLongf size = compressBound(static_cast<uLong>(filtered.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(filtered.data()), static_cast<uLong>(filtered.size()));
  packed.resize(size);
  const std::string header = BigEndian(form.width) + BigEndian(form.height) + form.depth +
                             form.color + std::string(3, '\0');
  return "\x89PNG\r\n\x1A\n" + PngChunk("IHDR", header) + chunks + PngChunk("IDAT", packed) +
         PngChunk("IEND", "");
}

// `pixels` are H,W,C bytes: gray, RGB, or CMYK (0 is full ink).
inline std::string JpegFile(unsigned width, unsigned height, int channels, std::string pixels,
                            bool is_progressive = false) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  for (int i = 0; i < channels; ++i) {  // colors as fine as brightness
    info.comp_info[i].h_samp_factor = info.comp_info[i].v_samp_factor = 1;
  }
  if (is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < height) {
    JSAMPROW row =
        reinterpret_cast<JSAMPROW>(pixels.data()) +
        static_cast<std::size_t>(info.next_scanline) * width * static_cast<std::size_t>(channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return file;
}

}  // namespace lockstep::train
