#include "base/rfc3339.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kMostDigits = 9;

// A cursor over the text; after the first mismatch every read fails.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  int Digits(int count) {
    int value = 0;
    for (int i = 0; i < count; ++i) value = 10 * value + Digit();
    return value;
  }

  void Literal(std::string_view any_of) { (void)OneOf(any_of); }

  // Returns the character read, or '\0'.
  char OneOf(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) {
      ok_ = false;
      return '\0';
    }
    const char found = rest_.front();
    rest_.remove_prefix(1);
    return found;
  }

  // Reads ".123456789"; returns 0 if there is no fraction.
  nanoseconds Fraction() {
    if (!ok_ || rest_.empty() || rest_.front() != '.') return nanoseconds{0};
    rest_.remove_prefix(1);
    std::int64_t value = Digit();
    std::int64_t scale = 100'000'000;
    value *= scale;
    while (NextIsDigit()) {
      scale /= 10;  // digits beyond nanoseconds are ignored
      value += scale * Digit();
    }
    return nanoseconds{value};
  }

  bool Done() const { return ok_ && rest_.empty(); }

 private:
  bool NextIsDigit() const {
    return ok_ && !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
  }
  int Digit() {
    if (!NextIsDigit()) {
      ok_ = false;
      return 0;
    }
    const int value = rest_.front() - '0';
    rest_.remove_prefix(1);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

struct Instant {
  std::chrono::year year;
  seconds since_epoch;  // in any year, which no Time has
  nanoseconds fraction;
};

std::optional<Instant> ParseInstant(std::string_view text) {
  Scanner scan(text);
  const std::chrono::year year{scan.Digits(4)};
  scan.Literal("-");
  const std::chrono::month month{static_cast<unsigned>(scan.Digits(2))};
  scan.Literal("-");
  const std::chrono::year_month_day date{year, month,
                                         std::chrono::day{static_cast<unsigned>(scan.Digits(2))}};
  scan.Literal("Tt");
  const int hour = scan.Digits(2);
  scan.Literal(":");
  const int minute = scan.Digits(2);
  scan.Literal(":");
  const int second = scan.Digits(2);
  const nanoseconds fraction = scan.Fraction();
  const char zone = scan.OneOf("Zz+-");
  minutes offset{0};
  if (zone == '+' || zone == '-') {
    const int offset_hours = scan.Digits(2);
    scan.Literal(":");
    const int offset_minutes = scan.Digits(2);
    if (offset_hours > 23 || offset_minutes > 59) return std::nullopt;
    offset = hours{offset_hours} + minutes{offset_minutes};
    if (zone == '-') offset = -offset;
  }
  if (!scan.Done() || !date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return Instant{year,
                 std::chrono::sys_days{date}.time_since_epoch() + hours{hour} + minutes{minute} +
                     seconds{second} - offset,
                 fraction};
}

constexpr std::chrono::year kFirstYear{1970}, kLastYear{2261};

Time TimeOf(const Instant& instant) {
  return Time{instant.since_epoch + instant.fraction};
}

}  // namespace

std::string FormatRfc3339(Time time) {
  std::string text = FormatRfc3339(time, kMostDigits);
  text.pop_back();  // the Z
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "Z";
}

std::string FormatRfc3339(Time time, int digits) {
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss<nanoseconds> clock{time - day};
  const std::string fraction = fmt::format(".{:09}", clock.subseconds().count());
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     digits == 0 ? "" : fraction.substr(0, static_cast<std::size_t>(digits) + 1));
}

std::optional<Time> ParseRfc3339(std::string_view text) {
  const std::optional<Instant> found = ParseInstant(text);
  if (!found || found->year < kFirstYear || found->year > kLastYear) return std::nullopt;
  return TimeOf(*found);
}

std::optional<Time> ParseExpiry(std::string_view text) {
  if (text == "0001-01-01T00:00:00Z") return Time::max();
  const std::optional<Instant> found = ParseInstant(text);
  if (!found) return std::nullopt;
  if (found->year < kFirstYear) return Time{};
  return found->year > kLastYear ? Time::max() : TimeOf(*found);
}

}  // namespace lockstep
