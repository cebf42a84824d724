#include "operator/health/http_server.h"

#include <CivetServer.h>
#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "api/base/status.h"

namespace lockstep::health {
namespace {

constexpr int kMaxPort = 65535;

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

class PageHandler final : public CivetHandler {
 public:
  explicit PageHandler(HttpPage page) : page_(std::move(page)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    return Answer(connection, /*with_body=*/true);
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    return Answer(connection, /*with_body=*/false);
  }

 private:
  bool Answer(mg_connection* connection, bool with_body) {
    const HttpAnswer answer = page_();
    const std::string head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size());
    mg_write(connection, head.data(), head.size());
    if (with_body) mg_write(connection, answer.body.data(), answer.body.size());
    return true;
  }

  const HttpPage page_;
};

class CivetHttpServer final : public HttpServer {
 public:
  // Throws CivetException if an address cannot be bound. Two threads: one slow reader must not
  // keep a probe waiting.
  CivetHttpServer(const std::string& ports, std::map<std::string, HttpPage> pages)
      : server_(std::vector<std::string>{"listening_ports", ports, "num_threads", "2",
                                         "request_timeout_ms", "5000"}) {
    for (auto& [path, page] : pages) {
      handlers_.push_back(std::make_unique<PageHandler>(std::move(page)));
      server_.addHandler(path + "$", *handlers_.back());
    }
    const std::vector<int> listening = server_.getListeningPorts();
    port_ = listening.empty() ? 0 : listening.front();
  }

  int port() const override { return port_; }

 private:
  std::vector<std::unique_ptr<PageHandler>> handlers_;
  int port_ = 0;
  CivetServer server_;
};

// civetweb's spellings of an address, the preferred one first: "+" asks for IPv6 beside IPv4.
std::vector<std::string> ListeningPorts(const std::string& address) {
  if (address.front() != ':') return {address};
  const std::string port = address.substr(1);
  if (mg_check_feature(MG_FEATURES_IPV6) == 0) return {port};
  return {"+" + port, port};
}

}  // namespace

absl::Status CheckBindAddress(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos) {
    const char* end = address.data() + address.size();
    const auto read = std::from_chars(address.data() + colon + 1, end, port);
    if (read.ec != std::errc() || read.ptr != end) port = -1;
  }
  const std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  if (port >= 0 && port <= kMaxPort && !bare_ipv6) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "found \"{}\", expected :PORT or HOST:PORT with a port from 0 to {}", address, kMaxPort));
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, const std::map<std::string, HttpPage>& pages) {
  LOCKSTEP_RETURN_IF_ERROR(CheckBindAddress(address));
  std::string error;
  for (const std::string& ports : ListeningPorts(address)) {
    try {
      return std::make_unique<CivetHttpServer>(ports, pages);
    } catch (const CivetException& refused) {
      error = refused.what();
    }
  }
  return absl::UnavailableError(
      fmt::format("address {}: cannot listen: is the port taken? ({})", address, error));
}

}  // namespace lockstep::health
