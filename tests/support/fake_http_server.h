// An HTTP/1.1 server on a loopback port, whose answers a test's function sends byte by byte.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "tests/support/loopback_server.h"

namespace lockstep::testing {

class FakeHttpServer {
 public:
  struct Request {
    std::string method, target, body;
    std::map<std::string, std::string> headers;  // lower-case names
  };

  // One client's connection. Sending to a client that is gone is not an error.
  class Connection {
   public:
    explicit Connection(int socket) : socket_(socket) {}

    void Send(std::string_view bytes);
    void Respond(int status, const std::string& body = "",
                 const std::map<std::string, std::string>& headers = {});
    // Sends a chunked body: first the headers, then any number of chunks, then the end.
    void StartChunks();
    void Chunk(std::string_view bytes);
    void EndChunks();
    // Closes the connection, even in the middle of a message.
    void Cut();
    bool IsClosed();  // by the client
    // Waits until the client closes the connection. Returns false if it does not within `patience`.
    bool AwaitClose(std::chrono::milliseconds patience = std::chrono::minutes(1));

   private:
    const int socket_;
  };

  // Called on the connection's thread, for one request at a time.
  using Handler = std::function<void(const Request&, Connection&)>;

  explicit FakeHttpServer(Handler handler);
  FakeHttpServer(const FakeHttpServer&) = delete;
  FakeHttpServer& operator=(const FakeHttpServer&) = delete;

  std::string url() const;  // http://127.0.0.1:port
  int port() const { return server_.port(); }
  std::vector<Request> requests() const;
  int connections() const { return server_.connections(); }

 private:
  void Serve(int socket);

  const Handler handler_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;  // guarded by mutex_
  LoopbackServer server_;          // last, so that its threads end before what they use
};

}  // namespace lockstep::testing
