// Merges lines of several logs into one sequence, in the order of their times.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lockstep::cli {

// Each source is filled by one thread, and one other thread takes the lines. Thread-safe.
class LogMerge {
 public:
  struct Line {
    int source = 0;          // as returned by AddSource
    Time time;               // never before that of the source's line before it
    std::string text;        // without its time and its line feed
    bool continues = false;  // it is a further piece of the source's line before it
    bool ends = true;        // by a line feed; else a further piece follows
  };

  // A source that is silent but has not ended could still send an earlier line. Without `patience`
  // Next waits for it. With one, Next returns a line that has waited for this long, so that a log
  // that is followed appears although another is silent.
  explicit LogMerge(std::optional<Duration> patience = std::nullopt) : patience_(patience) {}

  // Returns how many bytes of a source may wait for the others: 1 MB, less if there are many
  // sources: while one log is silent, the program must not buffer all others.
  static std::size_t MostWaiting(std::size_t sources);

  // Adds a log that has not ended. Requires: Close has not been called.
  int AddSource();
  // Adds a line that begins with its time (RFC 3339) and a space, as an API server sends it, and
  // ends with a line feed, or a piece of a line: see ResumedLog. A line without a time belongs
  // after the line before it. Blocks while as much of the source is waiting as may.
  void Add(int source, std::string_view piece);
  // Ends a source.
  void End(int source);
  // There will be no further sources.
  void Close();
  // Returns the next line. Blocks until there is one; nullopt after Close and the end of all
  // sources.
  std::optional<Line> Next();

 private:
  struct Waiting {
    Line line;
    SteadyTime arrival;
  };
  struct Source {
    std::deque<Waiting> lines;
    std::size_t bytes = 0;  // of `lines`
    bool goes_on = false;   // the latest line has not ended
    Time latest{};          // of the lines so far
    bool ended = false;
  };

  // Returns the index of the source whose first line is the earliest; nullopt: no line is waiting.
  std::optional<std::size_t> Earliest() const;
  bool MayHaveEarlier() const;  // a source is silent, or may yet be added
  bool IsOver() const;

  const std::optional<Duration> patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Source> sources_;
  bool closed_ = false;
};

}  // namespace lockstep::cli
