#include "trainer/data/decode_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "tests/support/most_memory.h"
#include "tests/support/mutate.h"
#include "tests/trainer/data/formats/image_files.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::span<const std::uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

Pixels Decode(const std::string& file, int channels = 3) {
  Pixels image;
  const absl::Status status = DecodeImage(Bytes(file), channels, image);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(image.bytes.size(), image.height * image.width * image.channels);
  return image;
}

std::string DecodeError(const std::string& file) {
  Pixels image;
  const absl::Status status = DecodeImage(Bytes(file), 3, image);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  return std::string(status.message());
}

TEST(DecodeImageTest, PngOfAnyKindBecomesRgbOrGray) {
  const std::string palette = PngChunk("PLTE", std::string("\x0A\x14\x1E\xFF\x00\x00", 6));
  const struct {
    const char* what;
    std::string file;
    std::vector<std::uint8_t> rgb, gray;
  } cases[] = {
      {"RGB",
       PngFile({2, 1, 8, 2}, "\x0A\x14\x1E\x28\x32\x3C"),
       {10, 20, 30, 40, 50, 60},
       {18, 48}},
      {"RGBA", PngFile({1, 1, 8, 6}, std::string("\x0A\x14\x1E\x00", 4)), {10, 20, 30}, {18}},
      {"gray", PngFile({1, 2, 8, 0}, "\x07\x08"), {7, 7, 7, 8, 8, 8}, {7, 8}},
      {"gray, alpha", PngFile({1, 1, 8, 4}, std::string("\x07\x00", 2)), {7, 7, 7}, {7}},
      {"gray of 1 bit", PngFile({2, 1, 1, 0}, "\x40"), {0, 0, 0, 255, 255, 255}, {0, 255}},
      {"gray of 16 bits", PngFile({1, 1, 16, 0}, "\x07\xFF"), {7, 7, 7}, {7}},
      {"palette", PngFile({2, 1, 1, 3}, "\x40", palette), {10, 20, 30, 255, 0, 0}, {18, 76}},
  };
  for (const auto& [what, file, rgb, gray] : cases) {
    EXPECT_EQ(Decode(file, 3).bytes, rgb) << what;
    EXPECT_EQ(Decode(file, 1).bytes, gray) << what;
  }
}

// Smooth, so that what JPEG loses is small.
std::string Gradient(unsigned width, unsigned height, int channels) {
  std::string pixels;
  for (unsigned y = 0; y < height; ++y) {
    for (unsigned x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels += static_cast<char>(40 + 4 * x + 3 * y + 20 * static_cast<unsigned>(c));
      }
    }
  }
  return pixels;
}

void ExpectNear(const Pixels& image, const std::string& pixels) {
  ASSERT_EQ(image.bytes.size(), pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(image.bytes[i], static_cast<std::uint8_t>(pixels[i]), 3) << i;
  }
}

TEST(DecodeImageTest, JpegIsReadAsRgbOrGray) {
  const std::string rgb = Gradient(17, 9, 3), gray = Gradient(17, 9, 1);
  const Pixels color = Decode(JpegFile(17, 9, 3, rgb));
  EXPECT_EQ(color.width, 17u);
  EXPECT_EQ(color.height, 9u);
  ExpectNear(color, rgb);
  ExpectNear(Decode(JpegFile(17, 9, 1, gray), 1), gray);
  const Pixels widened = Decode(JpegFile(17, 9, 1, gray), 3);
  EXPECT_EQ(widened.channels, 3u);
  EXPECT_EQ(widened.bytes[0], widened.bytes[2]);
}

TEST(DecodeImageTest, JpegOfFourInksBecomesRgb) {
  std::string inks;
  for (int i = 0; i < 64; ++i) inks += std::string("\xFF\x80\x00\x80", 4);
  const Pixels image = Decode(JpegFile(8, 8, 4, inks));
  ASSERT_EQ(image.bytes.size(), 64u * 3);
  EXPECT_NEAR(image.bytes[0], 128, 2);
  EXPECT_NEAR(image.bytes[1], 64, 2);
  EXPECT_NEAR(image.bytes[2], 0, 2);
  const Pixels gray = Decode(JpegFile(8, 8, 4, inks), 1);
  EXPECT_NEAR(gray.bytes[63], (77 * 128 + 150 * 64) >> 8, 2);
}

TEST(DecodeImageTest, OtherFormatsAreRefusedByTheirFirstBytes) {
  EXPECT_THAT(DecodeError(""), HasSubstr("found 0 bytes"));
  EXPECT_THAT(DecodeError("GIF89a"),
              HasSubstr("6 bytes that start with 47 49 46 38, expected a JPEG"));
}

TEST(DecodeImageTest, ImagesCutShortAreRefused) {
  const std::string jpeg = JpegFile(32, 32, 3, Gradient(32, 32, 3));
  const std::string png = PngFile({8, 8, 8, 2}, Gradient(8, 8, 3));
  for (const std::size_t size : {std::size_t{4}, jpeg.size() / 2, jpeg.size() - 4}) {
    EXPECT_THAT(DecodeError(jpeg.substr(0, size)), HasSubstr("damaged JPEG image: ")) << size;
  }
  for (const std::size_t size :
       {std::size_t{4}, std::size_t{20}, png.size() / 2, png.size() - 13}) {
    EXPECT_THAT(DecodeError(png.substr(0, size)), HasSubstr("damaged PNG image: ")) << size;
  }
}

// Pillow and TensorFlow read such files, and data sets from the Web have some.
TEST(DecodeImageTest, PixelsThatEndEarlyInAWholeJpegAreGray) {
  const std::string pixels(64 * 64 * 3, '\x20');
  for (const bool is_progressive : {false, true}) {
    const std::string whole = JpegFile(64, 64, 3, pixels, is_progressive);
    const std::size_t scan = whole.find("\xFF\xDA");
    const std::size_t kept = is_progressive ? scan + 20 : (scan + whole.size()) / 2;
    const Pixels image = Decode(whole.substr(0, kept) + "\xFF\xD9");
    if (is_progressive) continue;  // all of it is vague
    EXPECT_NEAR(image.bytes.front(), 0x20, 3);
    EXPECT_NEAR(image.bytes.back(), 0x80, 3);
  }
}

TEST(DecodeImageTest, OnlyTheLastMarkerOfAJpegMayBeMissing) {
  const std::string pixels = Gradient(17, 9, 3);
  const std::string whole = JpegFile(17, 9, 3, pixels);
  ExpectNear(Decode(whole.substr(0, whole.size() - 2)), pixels);
  ExpectNear(Decode(whole.substr(0, whole.size() - 1)), pixels);
  for (std::size_t size = whole.find("\xFF\xDA"); size < whole.size() - 3; ++size) {
    EXPECT_EQ(DecodeError(whole.substr(0, size)), "damaged JPEG image: Premature end of JPEG file")
        << size;
  }
  // A download that broke off in a file whose size was reserved.
  const std::string filled = whole.substr(0, whole.size() * 3 / 4) + std::string(1 << 16, '\0');
  EXPECT_EQ(DecodeError(filled), "damaged JPEG image: Premature end of JPEG file");
  // Whether a scan is missing is not known.
  const std::string progressive = JpegFile(17, 9, 3, pixels, true);
  EXPECT_EQ(DecodeError(progressive.substr(0, progressive.size() - 2)),
            "damaged JPEG image: Premature end of JPEG file");
}

TEST(DecodeImageTest, HeaderCannotMakeItAllocate) {
  EXPECT_THAT(DecodeError(PngFile({60'000, 60'000, 8, 2}, "")),
              HasSubstr("found a PNG image of 60000x60000, expected at most 67108864 pixels"));
  std::string jpeg = JpegFile(8, 8, 1, Gradient(8, 8, 1));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xF0\x00\xF0\x00", 4);
  EXPECT_THAT(DecodeError(jpeg), HasSubstr("found a JPEG image of 61440x61440"));
}

// 16 texts of 7 MiB each, in 8 KB each.
TEST(DecodeImageTest, TextsOfAPngAreNotKept) {
  const std::string text(7 << 20, 'a');
  std::string packed(compressBound(text.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(text.data()), text.size()),
            Z_OK);
  packed.resize(size);
  std::string png = PngFile({1, 1, 8, 2}, "abc");
  const std::size_t after_header = 8 + 25;  // the signature and IHDR
  for (int i = 0; i < 16; ++i) {
    png.insert(after_header, PngChunk("zTXt", std::string("k\0\0", 3) + packed));
  }
  const std::int64_t before = testing::MostMemoryOf(::getpid());
  EXPECT_GT(before, 0);
  EXPECT_EQ(Decode(png).bytes.size(), 3u);
  EXPECT_LT(testing::MostMemoryOf(::getpid()) - before, 40 << 20);
}

TEST(DecodeImageTest, ScansOfAJpegAreBounded) {
  const std::string jpeg = JpegFile(32, 32, 1, Gradient(32, 32, 1), /*is_progressive=*/true);
  EXPECT_EQ(Decode(jpeg, 1).bytes.size(), 32u * 32u);
  // The first scan, up to the tables of the second one.
  const std::size_t scan = jpeg.find("\xFF\xDA"), next = jpeg.find("\xFF\xC4", scan);
  ASSERT_LT(next, jpeg.size());
  std::string many = jpeg.substr(0, next);
  for (int i = 0; i < 200; ++i) many += jpeg.substr(scan, next - scan);
  EXPECT_THAT(DecodeError(many + jpeg.substr(next)),
              StartsWith("too large a JPEG image: found 101 scans, expected at most 100"));
}

TEST(DecodeImageTest, CoefficientsOfAJpegAreBounded) {
  std::string file = JpegFile(32, 32, 3, Gradient(32, 32, 3), true);
  const std::size_t frame = file.find("\xFF\xC2");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\x1F\x40\x1F\x40", 4);  // 8000x8000
  EXPECT_THAT(
      DecodeError(file),
      StartsWith("too large a JPEG image: its scans take more than 268435456 bytes of memory"));
}

// Limits the address space, of which the sanitizers take terabytes.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Decodes into `image` while there is memory for small objects, but for none of more than 256 KiB.
absl::Status DecodeInLittleMemory(const std::string& file, Pixels& image) {
  constexpr std::size_t kPiece = 256 << 10;
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  std::ifstream usage("/proc/self/statm");
  rlim_t pages = 0;
  usage >> pages;
  rlimit little = limit;
  little.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + 4 * kPiece;
  std::vector<void*> taken;
  taken.reserve(1 << 16);
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  // What the allocator kept of earlier tests is used up, too.
  while (void* piece = std::malloc(kPiece)) taken.push_back(piece);
  EXPECT_FALSE(taken.empty());
  std::free(taken.back());
  taken.pop_back();
  absl::Status status = DecodeImage(Bytes(file), 3, image);
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  for (void* piece : taken) std::free(piece);
  return status;
}

TEST(DecodeImageTest, ALackOfMemoryIsNoDamage) {
  const std::size_t size = std::size_t{4096} * 1024 * 3;
  const std::string jpeg = JpegFile(4096, 1024, 3, std::string(size, 'a'), true);
  // Its decoder keeps a row of 512 KB.
  const std::string png = PngFile({65'535, 1, 16, 6}, std::string(65'535 * 8, 'a'));
  for (const std::string& file : {jpeg, png}) {
    for (const bool has_pixels : {true, false}) {  // without, the pixels' memory is what lacks
      Pixels image;
      if (has_pixels) image.bytes.resize(size);
      const absl::Status status = DecodeInLittleMemory(file, image);
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(DecodeImage(Bytes(file), 3, image).ok());
    }
  }
}
#endif

TEST(DecodeImageTest, NoDamageCrashes) {
  const std::string files[] = {JpegFile(16, 16, 3, Gradient(16, 16, 3)),
                               JpegFile(16, 16, 4, Gradient(16, 16, 4)),
                               PngFile({16, 16, 8, 2}, Gradient(16, 16, 3))};
  int decoded = 0;
  for (std::uint64_t n = 0; n < 900; ++n) {
    Pixels image;
    if (!DecodeImage(Bytes(Mutate(files[n % 3], n / 3)), n % 2 == 0 ? 1 : 3, image).ok()) continue;
    ++decoded;
    EXPECT_EQ(image.bytes.size(), image.height * image.width * image.channels);
  }
  EXPECT_GT(decoded, 100);
  EXPECT_LT(decoded, 800);
}

}  // namespace
}  // namespace lockstep::train
