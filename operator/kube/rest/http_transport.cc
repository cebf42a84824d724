#ifndef _TURN_OFF_PLATFORM_STRING
#define _TURN_OFF_PLATFORM_STRING  // see handover_buffer.h
#endif

#include "operator/kube/rest/http_transport.h"

#include <cpprest/http_client.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/log.h"
#include "operator/kube/rest/answer_buffer.h"
#include "operator/kube/rest/handover_buffer.h"
#include "operator/kube/rest/sockets.h"
#include "operator/kube/rest/timer_thread.h"
#include "operator/kube/rest/tls_faults.h"
#include "operator/kube/stream_end.h"

// cpprestsdk calls this for each new connection, where it reads and parses a hundred certificates
// that are discarded if an authority is pinned: 15 ms and a megabyte each time. This definition
// takes precedence over libssl's; LoadTls loads the system's roots where they are needed.
extern "C" int SSL_CTX_set_default_verify_paths(SSL_CTX* /*context*/) {
  return 1;
}

namespace lockstep::kube {
namespace {

namespace http = web::http;
namespace ssl = boost::asio::ssl;
using http::client::http_client;
using http::client::http_client_config;

// The library does little work itself: a second thread makes requests a fifth slower because of the
// handover between threads. If a callback blocks here, such as a credential plugin for a new
// connection, all requests wait for it.
constexpr std::size_t kPoolThreads = 1;
// The library has no infinite timeout.
constexpr Duration kVeryLong = std::chrono::hours(24 * 7);

void SizeThreadPoolOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The pool's threads run until the library is unloaded. OpenSSL's atexit cleanup would run
    // before that, free what the threads still use, and leak their per-thread state.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    try {
      crossplat::threadpool::initialize_with_threads(kPoolThreads);
    } catch (const std::runtime_error& error) {  // the pool exists already, which is fine
      LogInfo("the HTTP library's threads are not ours to number", {{"error", error.what()}});
    }
  });
}

// cpprestsdk calls this before each request; a socket of a new connection is not open yet.
template <typename Socket>
void OpenWithProbes(Socket& socket) {
  if (socket.is_open()) return;
  boost::system::error_code error;
  socket.open(boost::asio::ip::tcp::v4(), error);
  if (!error) SetProbes(socket.native_handle());
}

// What it throws, the transport reports as the reason why there is no connection.
void LoadTls(ssl::context& context, const HttpTransportOptions& options) {
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  if (!options.tls) return;
  const absl::StatusOr<TlsMaterial> tls = options.tls();
  if (!tls.ok()) throw std::runtime_error(std::string(tls.status().message()));
  const auto buffer = [](const std::string& text) { return boost::asio::buffer(text); };
  const char* what = "certificate authority";
  try {
    if (tls->ca.empty()) {
      X509_STORE_set_default_paths(SSL_CTX_get_cert_store(context.native_handle()));
    } else {
      // A new store replaces whatever the library has loaded.
      SSL_CTX_set_cert_store(context.native_handle(), X509_STORE_new());
      context.add_certificate_authority(buffer(tls->ca));
    }
    what = "client certificate";
    if (!tls->certificate.empty()) context.use_certificate_chain(buffer(tls->certificate));
    what = "client key";
    if (!tls->key.empty()) context.use_private_key(buffer(tls->key), ssl::context::pem);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(fmt::format("the {} cannot be used: {}", what, error.what()));
  }
}

http_client_config ConfigOf(const HttpTransportOptions& options, const std::string& host,
                            const TlsFaults& faults, Duration silence) {
  const int family = AddressFamily(host);
  http_client_config config;
  config.set_timeout(std::chrono::ceil<std::chrono::milliseconds>(silence));
  config.set_max_redirects(0);  // a redirect could send our credentials to any host
  config.set_validate_certificates(!options.insecure_skip_tls_verify);
  // SNI does not allow IP addresses (RFC 6066).
  config.set_tlsext_sni_enabled(family == AF_UNSPEC || !options.tls_server_name.empty());
  config.set_ssl_context_callback([options, faults](ssl::context& context) {
    LoadTls(context, options);
    faults.Watch(context.native_handle());
  });
  if (family == AF_INET) {  // the family of a name is unknown until it is resolved
    using Tcp = boost::asio::ip::tcp::socket;
    if (options.server.starts_with("https")) {
      config.set_nativehandle_options([](http::client::native_handle handle) {
        OpenWithProbes(static_cast<ssl::stream<Tcp&>*>(handle)->next_layer());
      });
    } else {
      config.set_nativehandle_options(
          [](http::client::native_handle handle) { OpenWithProbes(*static_cast<Tcp*>(handle)); });
    }
  }
  return config;
}

std::optional<std::chrono::seconds> RetryAfterOf(const http::http_response& response) {
  const auto header = response.headers().find("Retry-After");
  if (header == response.headers().end()) return std::nullopt;
  int seconds = 0;
  const std::string& text = header->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  // The header's other form is a date; no API server sends it.
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

using OutStream = concurrency::streams::basic_ostream<std::uint8_t>;

OutStream StreamInto(std::shared_ptr<WriteOnlyBuffer> buffer) {
  return OutStream(concurrency::streams::streambuf<std::uint8_t>(std::move(buffer)));
}

// A one-shot event, shared by the thread that sets it and the one that waits.
class Flag {
 public:
  void Set() {
    {
      const std::lock_guard lock(mutex_);
      set_ = true;
    }
    changed_.notify_one();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Waits for the task's result. The library's own wait notifies while it holds the lock that the
// waiter needs, which costs both threads a context switch per request and event.
template <typename T>
T Await(const pplx::task<T>& task) {
  if (!task.is_done()) {
    const auto done = std::make_shared<Flag>();
    task.then([done](const pplx::task<T>& /*ended*/) { done->Set(); });
    done->Wait();
  }
  return task.get();
}

// Why a request was cancelled, if it was.
struct Fate {
  std::atomic<bool> late{false}, stopped{false}, too_long{false};
  pplx::cancellation_token_source cancel;
};

struct CancelAtExit {
  std::shared_ptr<Fate> fate;
  ~CancelAtExit() { fate->cancel.cancel(); }
};

struct AbandonAtExit {
  std::shared_ptr<HandoverBuffer> body;
  ~AbandonAtExit() { body->Abandon(); }
};

// The library's clients, each with its open connections.
struct Clients {
  Clients(const HttpTransportOptions& options, const web::uri& server, const TlsFaults& faults)
      // Requests have their own deadlines; the library's limit on silence is the last resort.
      : requests(server, ConfigOf(options, server.host(), faults, std::chrono::minutes(10))),
        streams(server, ConfigOf(options, server.host(), faults, options.stream_silence)),
        quiet_streams(server, ConfigOf(options, server.host(), faults, kVeryLong)) {}
  http_client requests, streams, quiet_streams;
};

class CpprestTransport final : public HttpTransport {
 public:
  CpprestTransport(HttpTransportOptions options, const web::uri& server)
      : options_(std::move(options)),
        server_(server),
        name_(options_.tls_server_name.empty() ? server.host() : options_.tls_server_name),
        clients_(std::make_shared<Clients>(options_, server_, faults_)) {}

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request, Duration timeout) override {
    const auto fate = std::make_shared<Fate>();
    const std::shared_ptr<Clients> clients = ClientsFor(request);
    const TimerThread::Id deadline = SetDeadline(fate, timeout);
    auto response = Guarded(*fate, timeout, [&] {
      http::http_request message = MessageOf(request);
      if (request.wants_body) CancelIfLonger(request.most_bytes, fate, message);
      const auto body = std::make_shared<AnswerBuffer>(request.wants_body ? request.most_bytes
                                                                          : kLongestUnwanted);
      message.set_response_stream(StreamInto(body));
      const http::http_response answer =
          Await(clients->requests.request(message, fate->cancel.get_token())
                    .then([](const http::http_response& begun) { return begun.content_ready(); }));
      return absl::StatusOr<HttpResponse>(
          HttpResponse{answer.status_code(), RetryAfterOf(answer), body->Take(), fate->too_long});
    });
    deadlines_.Cancel(deadline);
    return response;
  }

  absl::StatusOr<HttpResponse> Stream(
      const HttpRequest& request, Duration timeout, std::stop_token stop,
      const std::function<absl::Status(std::string_view)>& on_bytes) override {
    const auto fate = std::make_shared<Fate>();
    const CancelAtExit ends_with_this_call{fate};  // on every path: the library would read on
    const std::stop_callback on_stop(stop, [fate] {
      fate->stopped = true;
      fate->cancel.cancel();
    });
    const std::shared_ptr<Clients> clients = ClientsFor(request);
    const TimerThread::Id deadline = SetDeadline(fate, timeout);
    bool is_stream = false;
    auto response = Guarded(*fate, timeout, [&]() -> absl::StatusOr<HttpResponse> {
      http_client& client = request.may_be_silent ? clients->quiet_streams : clients->streams;
      const auto body = std::make_shared<HandoverBuffer>();
      const AbandonAtExit ends_with_this_answer{body};
      http::http_request message = MessageOf(request);
      message.set_response_stream(StreamInto(body));
      const http::http_response answer = Await(client.request(message, fate->cancel.get_token()));
      HttpResponse result{answer.status_code(), RetryAfterOf(answer), "", false};
      is_stream = result.status == http::status_codes::OK;
      if (is_stream) deadlines_.Cancel(deadline);
      const pplx::task<http::http_response> whole = answer.content_ready();
      whole.then([body](const pplx::task<http::http_response>& /*ended*/) { body->End(); });
      for (std::string_view piece = body->Next(); !piece.empty(); piece = body->Next()) {
        if (!is_stream) {
          result.body += piece.substr(0, kLongestUnwanted - result.body.size());
        } else if (absl::Status status = on_bytes(piece); !status.ok()) {
          return status;
        }
      }
      Await(whole);  // throws if the connection broke
      return result;
    });
    deadlines_.Cancel(deadline);
    if (is_stream && !response.ok()) return MarkBegun(response.status());
    return response;
  }

 private:
  // Calls under way keep their clients; the last of them closes the connections.
  std::shared_ptr<Clients> ClientsFor(const HttpRequest& request) {
    std::shared_ptr<Clients> replaced;  // ends after the lock
    const std::lock_guard lock(mutex_);
    if (request.certificate > certificate_) {
      certificate_ = request.certificate;
      replaced = std::exchange(clients_, std::make_shared<Clients>(options_, server_, faults_));
    }
    return clients_;
  }

  TimerThread::Id SetDeadline(const std::shared_ptr<Fate>& fate, Duration timeout) {
    return deadlines_.Set(std::chrono::steady_clock::now() + timeout, [fate] {
      fate->late = true;
      fate->cancel.cancel();
    });
  }

  // Cancelling also closes the connection, so that the next request on it cannot read the rest.
  static void CancelIfLonger(std::size_t most, const std::shared_ptr<Fate>& fate,
                             http::http_request& message) {
    message.set_progress_handler(
        [fate, most](http::message_direction::direction direction, utility::size64_t bytes) {
          if (direction != http::message_direction::download || bytes <= most) return;
          fate->too_long = true;
          fate->cancel.cancel();
        });
  }

  http::http_request MessageOf(const HttpRequest& request) const {
    http::http_request message(request.method);
    message.set_request_uri(web::uri(request.target));
    http::http_headers& headers = message.headers();
    headers.add("Accept", request.accept);
    headers.add("User-Agent", options_.user_agent);
    // The library verifies the certificate against the Host header.
    if (!options_.tls_server_name.empty()) headers.add("Host", options_.tls_server_name);
    if (!request.bearer_token.empty())
      headers.add("Authorization", "Bearer " + request.bearer_token);
    if (!request.body.empty()) {
      headers.set_content_type("application/json");
      // As bytes, because the library would read a string through a pointer to another type.
      message.set_body(std::vector<unsigned char>(request.body.begin(), request.body.end()));
    }
    return message;
  }

  // Translates the library's exceptions into status codes. Their messages do not say which server.
  template <typename Call>
  absl::StatusOr<HttpResponse> Guarded(const Fate& fate, Duration timeout, Call call) const {
    std::string reason;
    try {
      return call();
    } catch (const http::http_exception& error) {
      reason = error.what() + faults_.Reason(error.error_code().value(), name_);
      if (error.error_code() == std::errc::timed_out && !fate.late && !fate.stopped) {
        return MarkSilent(absl::UnavailableError(
            fmt::format("{}: nothing came for too long: {}", options_.server, reason)));
      }
    } catch (const web::uri_exception& error) {
      return absl::InvalidArgumentError(error.what());
    } catch (const std::runtime_error& error) {
      reason = error.what();
    } catch (const pplx::task_canceled& error) {
      reason = error.what();
    }
    if (fate.too_long) return HttpResponse{.too_long = true};
    if (fate.stopped) return absl::CancelledError("stopped");
    if (fate.late) {
      return absl::DeadlineExceededError(
          fmt::format("{}: no answer within {:.3g} s", options_.server,
                      std::chrono::duration<double>(timeout).count()));
    }
    return absl::UnavailableError(fmt::format("{}: {}", options_.server, reason));
  }

  const HttpTransportOptions options_;
  const web::uri server_;
  const std::string name_;  // the certificate's
  const TlsFaults faults_;
  TimerThread deadlines_;
  std::mutex mutex_;
  std::shared_ptr<Clients> clients_;  // guarded by mutex_
  std::uint64_t certificate_ = 0;     // of clients_; guarded by mutex_
};

absl::StatusOr<web::uri> ServerUri(const std::string& server) {
  const auto refuse = [&server](const char* why) {
    return absl::InvalidArgumentError(
        fmt::format("server \"{}\": {}; expected https://host:port", server, why));
  };
  if (!web::uri::validate(server)) return refuse("it is no URL");
  web::uri uri(server);
  if (uri.scheme() != "https" && uri.scheme() != "http") return refuse("its scheme is unknown");
  if (uri.host().empty()) return refuse("it names no host");
  // cpprestsdk passes the brackets to the resolver, which knows no such host.
  if (uri.host().starts_with("[")) return refuse("an IPv6 address cannot be used, only a name");
  if (!uri.query().empty() || !uri.fragment().empty()) return refuse("it has a query");
  return uri;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpTransport>> MakeHttpTransport(HttpTransportOptions options) {
  absl::StatusOr<web::uri> server = ServerUri(options.server);
  if (!server.ok()) return server.status();
  SizeThreadPoolOnce();
  return std::make_unique<CpprestTransport>(std::move(options), *server);
}

}  // namespace lockstep::kube
