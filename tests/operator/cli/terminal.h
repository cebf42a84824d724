// A pseudo-terminal; the test reads its output from the other end.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace lockstep::testing {

class Terminal {
 public:
  Terminal() {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    out_ = std::fopen(ptsname(master_), "w");
  }
  ~Terminal() {
    std::fclose(out_);
    close(master_);
  }
  std::FILE* out() const { return out_; }
  void SetColumns(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
  }
  // Returns the output, which arrives in pieces, up to `last`, or less if `last` does not arrive.
  std::string ReadTo(const std::string& last) const {
    std::string text;
    char buffer[4096];
    pollfd readable{master_, POLLIN, 0};
    while (text.find(last) == std::string::npos && poll(&readable, 1, 10'000) == 1) {
      const ssize_t size = read(master_, buffer, sizeof buffer);
      if (size <= 0) break;
      text.append(buffer, static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  const int master_ = posix_openpt(O_RDWR | O_NOCTTY);
  std::FILE* out_ = nullptr;
};

}  // namespace lockstep::testing
