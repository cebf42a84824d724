// The interface that cpprestsdk requires of a buffer for response bodies, without its read side.
#pragma once

// cpprestsdk's macro U would clash with fmt's type parameters.
#ifndef _TURN_OFF_PLATFORM_STRING
#define _TURN_OFF_PLATFORM_STRING
#endif
#include <cpprest/astreambuf.h>

#include <cstdint>

namespace lockstep::kube {

// A stream buffer that is never open for reading. A derived class implements _putn, the only
// function by which the library writes.
class WriteOnlyBuffer : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  WriteOnlyBuffer() : streambuf_state_manager(std::ios_base::out) {}

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
  pplx::task<int_type> _putc(std::uint8_t) override { return Nothing(); }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}
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
};

}  // namespace lockstep::kube
