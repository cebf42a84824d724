// The buffer into which cpprestsdk writes a streamed response body.
#pragma once

// cpprestsdk's macro U would clash with fmt's type parameters.
#ifndef _TURN_OFF_PLATFORM_STRING
#define _TURN_OFF_PLATFORM_STRING
#endif
#include <cpprest/astreambuf.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

namespace lockstep::kube {

// Hands each piece that the library has read to one reader, in place, and lets the library read on
// when the reader is done with it. So nothing is copied, and at most one piece is in memory however
// slow the reader is; the library's own producer-consumer buffer is unbounded, and a chunk of a
// watch can have 9 MB. Thread-safe: one reader calls Next and Abandon, any thread calls End. Create
// with std::make_shared.
class HandoverBuffer final
    : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  HandoverBuffer() : streambuf_state_manager(std::ios_base::out) {}

  // Blocks. Returns the next piece, valid until the next call; empty after the end.
  std::string_view Next();
  // Marks the end of the body.
  void End();
  // The reader will not call again: discards all further pieces.
  void Abandon();

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}
  std::size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return pos_type(traits::eof()); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return pos_type(traits::eof()); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return pos_type(traits::eof());
  }
  bool acquire(std::uint8_t*&, std::size_t&) override { return false; }
  void release(std::uint8_t*, std::size_t) override {}

 protected:
  pplx::task<std::size_t> _putn(const std::uint8_t* piece, std::size_t size) override;
  // The library writes only with _putn.
  pplx::task<int_type> _putc(std::uint8_t) override { return Nothing(); }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}
  // The buffer is never open for reading.
  pplx::task<int_type> _bumpc() override { return Nothing(); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return Nothing(); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return Nothing(); }
  pplx::task<int_type> _ungetc() override { return Nothing(); }
  pplx::task<std::size_t> _getn(std::uint8_t*, std::size_t) override {
    return pplx::task_from_result<std::size_t>(0);
  }
  std::size_t _scopy(std::uint8_t*, std::size_t) override { return 0; }

 private:
  static pplx::task<int_type> Nothing() { return pplx::task_from_result<int_type>(traits::eof()); }
  // Lets the library continue, if it is waiting.
  void Release(std::unique_lock<std::mutex> lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::string_view piece_;  // empty: none
  bool is_read_ = false;    // the reader has piece_
  bool ended_ = false, abandoned_ = false;
  // Completed when piece_ has been read.
  std::optional<pplx::task_completion_event<std::size_t>> taken_;
};

}  // namespace lockstep::kube
