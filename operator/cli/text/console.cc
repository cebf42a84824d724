#include "operator/cli/text/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/printable.h"

namespace lockstep::cli {
namespace {

constexpr Duration kPlainPeriod = std::chrono::seconds(2);
constexpr int kDefaultColumns = 80;

}  // namespace

int TerminalColumns(std::FILE* out) {
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

Console::Console(std::FILE* out, const Clock& clock, bool quiet)
    : out_(out), clock_(clock), quiet_(quiet), terminal_(isatty(fileno(out)) != 0) {}

int TerminalRows(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

void Console::ClearLine() {
  if (shown_.empty()) return;
  std::fputs("\r\033[K", out_);
  shown_.clear();
}

void Console::Flush() {
  if (std::fflush(out_) != 0 && errno == EPIPE) is_unread_ = true;
}

void Console::Note(const std::string& line) {
  if (quiet_) return;
  const std::string progress = shown_;
  ClearLine();
  std::fputs((Printable(line) + "\n").c_str(), out_);
  if (!progress.empty()) Progress(progress);
  Flush();
}

void Console::Warn(const std::string& line) {
  ClearLine();
  Flush();
  std::fputs(("lockstep: " + Printable(line) + "\n").c_str(), stderr);
}

void Console::Progress(const std::string& text) {
  if (quiet_) return;
  const std::string line = Printable(text);
  if (terminal_) {
    ClearLine();
    const int width = TerminalColumns(out_) - 1;  // a wrapped line cannot be cleared
    shown_ = line.substr(0, static_cast<std::size_t>(width));
    std::fputs(shown_.c_str(), out_);
  } else if (clock_.SteadyNow() >= next_plain_ && line != last_) {
    next_plain_ = clock_.SteadyNow() + kPlainPeriod;
    last_ = line;
    std::fputs((line + "\n").c_str(), out_);
  }
  Flush();
}

void Console::EndProgress() {
  if (!shown_.empty()) std::fputs("\n", out_);
  shown_.clear();
  Flush();
}

}  // namespace lockstep::cli
