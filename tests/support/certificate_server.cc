#include "tests/support/certificate_server.h"

#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"

namespace lockstep::testing {
namespace {

template <auto Free>
struct FreeBy {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, FreeBy<SSL_free>>;
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Memory = std::unique_ptr<BIO, FreeBy<BIO_free_all>>;

std::string TextOf(const Memory& memory) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string NameOf(const Session& session) {
  const Certificate shown(SSL_get1_peer_certificate(session.get()));
  std::array<char, 64> name{};
  if (shown) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name.data(),
                              name.size());
  }
  return name.data();
}

// OpenSSL writes to a socket without MSG_NOSIGNAL, and the client may be gone.
void BlockBrokenPipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// The tests' clients send heads without bodies.
bool ReadRequest(const Session& session) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (!text.ends_with("\r\n\r\n")) {
    const int count = SSL_read(session.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (count <= 0) return false;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

Identity MakeIdentity(const std::string& name) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  X509* const x509 = certificate.get();
  X509_gmtime_adj(X509_getm_notBefore(x509), -60);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, key.get());
  X509_NAME* const subject = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x509, subject);
  LOCKSTEP_CHECK(X509_sign(x509, key.get(), EVP_sha256()) > 0, "no certificate");
  const Memory certificate_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate_text.get(), x509);
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {TextOf(certificate_text), TextOf(key_text)};
}

CertificateServer::CertificateServer(std::function<int(const std::string&)> status_for)
    : status_for_(std::move(status_for)), server_([this](int socket) { Serve(socket); }) {}

std::string CertificateServer::url() const {
  return fmt::format("https://127.0.0.1:{}", server_.port());
}

std::vector<std::string> CertificateServer::names() const {
  const std::lock_guard lock(mutex_);
  return names_;
}

void CertificateServer::Serve(int socket) {
  BlockBrokenPipes();
  const Context context(SSL_CTX_new(TLS_server_method()));
  const Memory certificate_text(BIO_new_mem_buf(own_.certificate.data(), -1));
  const Memory key_text(BIO_new_mem_buf(own_.key.data(), -1));
  const Certificate certificate(
      PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  SSL_CTX_use_certificate(context.get(), certificate.get());
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  // Asks for a certificate, and takes any.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER,
                     [](int /*verified*/, X509_STORE_CTX* /*chain*/) { return 1; });
  const Session session(SSL_new(context.get()));
  SSL_set_fd(session.get(), socket);
  if (SSL_accept(session.get()) == 1) {
    const std::string name = NameOf(session);
    while (ReadRequest(session)) {
      {
        const std::lock_guard lock(mutex_);
        names_.push_back(name);
      }
      const std::string answer =
          fmt::format("HTTP/1.1 {} Whatever\r\nContent-Length: 2\r\n\r\n{{}}", status_for_(name));
      if (SSL_write(session.get(), answer.data(), static_cast<int>(answer.size())) <= 0) break;
    }
  }
}

}  // namespace lockstep::testing
