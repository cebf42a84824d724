#include "tests/support/fake_http_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "tests/support/loopback.h"

namespace lockstep::testing {
namespace {

using Request = FakeHttpServer::Request;

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Reads requests from a socket, one after the other.
class RequestReader {
 public:
  explicit RequestReader(int socket) : socket_(socket) {}

  std::optional<Request> Next() {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadMore()) return std::nullopt;
    }
    Request request = ParseHead(buffer_.substr(0, end));
    buffer_.erase(0, end + 4);
    const auto length = request.headers.find("content-length");
    const std::size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (buffer_.size() < size) {
      if (!ReadMore()) return std::nullopt;
    }
    request.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return request;
  }

 private:
  static Request ParseHead(const std::string& head) {
    Request request;
    const std::size_t space = head.find(' ');
    request.method = head.substr(0, space);
    request.target = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
    for (std::size_t line = head.find("\r\n"); line != std::string::npos;) {
      const std::size_t begin = line + 2;
      line = head.find("\r\n", begin);
      const std::string header = head.substr(begin, line - begin);
      const std::size_t colon = header.find(':');
      const std::size_t value = header.find_first_not_of(' ', colon + 1);
      request.headers[Lower(header.substr(0, colon))] =
          value == std::string::npos ? "" : header.substr(value);
    }
    return request;
  }

  bool ReadMore() {
    std::array<char, 16384> bytes{};
    const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  const int socket_;
  std::string buffer_;
};

}  // namespace

void FakeHttpServer::Connection::Send(std::string_view bytes) {
  (void)SendAll(socket_, bytes);
}

void FakeHttpServer::Connection::Respond(int status, const std::string& body,
                                         const std::map<std::string, std::string>& headers) {
  std::string head = fmt::format(
      "HTTP/1.1 {} Whatever\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", status,
      body.size());
  for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
  Send(head + "\r\n" + body);
}

void FakeHttpServer::Connection::StartChunks() {
  Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void FakeHttpServer::Connection::Chunk(std::string_view bytes) {
  Send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

void FakeHttpServer::Connection::EndChunks() {
  Send("0\r\n\r\n");
}

void FakeHttpServer::Connection::Cut() {
  shutdown(socket_, SHUT_RDWR);
}

bool FakeHttpServer::Connection::IsClosed() {
  return AwaitClose(std::chrono::milliseconds(0));
}

bool FakeHttpServer::Connection::AwaitClose(std::chrono::milliseconds patience) {
  pollfd closed{socket_, POLLRDHUP, 0};
  return poll(&closed, 1, static_cast<int>(patience.count())) == 1;
}

FakeHttpServer::FakeHttpServer(Handler handler)
    : handler_(std::move(handler)), server_([this](int socket) { Serve(socket); }) {}

std::string FakeHttpServer::url() const {
  return fmt::format("http://127.0.0.1:{}", server_.port());
}

std::vector<Request> FakeHttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeHttpServer::Serve(int socket) {
  RequestReader reader(socket);
  Connection connection(socket);
  while (const std::optional<Request> request = reader.Next()) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    handler_(*request, connection);
  }
}

}  // namespace lockstep::testing
