// Says why a TLS handshake failed, of which the HTTP library says only that it did.
#pragma once

#include <atomic>
#include <memory>
#include <string>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace lockstep::kube {

// The faults of the connections to one server. Thread-safe. Copies share what was noted.
class TlsFaults {
 public:
  // Notes from now on what is wrong with the certificate of a server that is refused by a
  // connection of this context, which may outlive this object.
  void Watch(ssl_ctx_st* context) const;
  // Returns the reason, to stand behind the library's message: ": certificate has expired". Empty
  // if `error`, the code of a call that failed, is none of TLS. `host` is what the certificate was
  // to name. If several connections fail at a time, it may be the reason of another one.
  std::string Reason(int error, const std::string& host) const;

 private:
  // What the latest verification of a certificate has found, as OpenSSL's X509_V_ERR_….
  std::shared_ptr<std::atomic<long>> latest_ = std::make_shared<std::atomic<long>>(0);
};

}  // namespace lockstep::kube
