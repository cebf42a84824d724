#include "operator/cli/logs/log_printer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/operator/cli/terminal.h"

namespace lockstep::cli {
namespace {

// Prints the pieces to a terminal and returns what the terminal shows, up to `last`. The terminal's
// driver turns each line feed into "\r\n".
std::string Shown(const std::vector<std::string>& pieces, const std::string& last) {
  const testing::Terminal terminal;
  LogPrinter printer(terminal.out());
  for (const std::string& piece : pieces) printer.Print(piece);
  printer.End();
  return terminal.ReadTo(last);
}

TEST(LogPrinterTest, ControlSequencesInALogAreReplaced) {
  EXPECT_EQ(Shown({"a\x1b]0;yours\x07 b\n", "\tstep \x1b[2J1\n"}, "1\r\n"),
            "a?]0;yours? b\r\n\tstep ?[2J1\r\n");
}

TEST(LogPrinterTest, ACharacterMayArriveInPieces) {
  const std::string text = "\u009b31m \u202e caf\u00e9 \u20ac \U0001f600 end\n";
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  const std::string expected = "?31m ? caf\u00e9 \u20ac \U0001f600 end\r\n";
  EXPECT_EQ(Shown({text}, "end\r\n"), expected);
  EXPECT_EQ(Shown(bytes, "end\r\n"), expected);
}

TEST(LogPrinterTest, ALogMayEndWithinACharacter) {
  EXPECT_EQ(Shown({"a\n\xe2\x80"}, "\xe2\x80"), "a\r\n\xe2\x80");
}

TEST(LogPrinterTest, EachRedrawOfALineIsPrintedAsALine) {
  EXPECT_EQ(Shown({"10 %\r20 %\r", "\nwith both\r\nend\n"}, "end\r\n"),
            "10 %\r\n20 %\r\nwith both\r\nend\r\n");
}

TEST(LogPrinterTest, AFileGetsEveryByte) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const std::string text("a\x1b[31m\r\n\0 \xc2", 11);
  LogPrinter printer(file);
  printer.Print(text);
  printer.Print("\x9b\xff\xe2");
  printer.End();
  std::rewind(file);
  std::string written(100, ' ');
  written.resize(std::fread(written.data(), 1, written.size(), file));
  EXPECT_EQ(written, text + "\x9b\xff\xe2");
  std::fclose(file);
}

}  // namespace
}  // namespace lockstep::cli
