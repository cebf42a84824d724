#include "operator/kube/rest/tls_faults.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <memory>
#include <tuple>

namespace lockstep::kube {
namespace {

using Slot = std::shared_ptr<std::atomic<long>>;

void FreeSlot(void* /*context*/, void* slot, CRYPTO_EX_DATA* /*data*/, int /*index*/,
              long /*argument*/, void* /*pointer*/) {
  delete static_cast<Slot*>(slot);
}

// Where a context has its slot.
int SlotIndex() {
  static const int index =
      CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, nullptr, nullptr, nullptr, FreeSlot);
  return index;
}

// OpenSSL calls this while it tells the server that its certificate is refused. Only the connection
// has the result, and the HTTP library closes the connection without reporting it.
void NoteAlert(const SSL* connection, int where, int /*value*/) {
  if (where != SSL_CB_WRITE_ALERT) return;
  const void* slot = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), SlotIndex());
  if (slot != nullptr) **static_cast<const Slot*>(slot) = SSL_get_verify_result(connection);
}

}  // namespace

void TlsFaults::Watch(ssl_ctx_st* context) const {
  auto slot = std::make_unique<Slot>(latest_);
  if (SSL_CTX_set_ex_data(context, SlotIndex(), slot.get()) != 1) return;  // then nothing is noted
  std::ignore = slot.release();  // FreeSlot deletes it, with the context
  SSL_CTX_set_info_callback(context, NoteAlert);
}

std::string TlsFaults::Reason(int error, const std::string& host) const {
  const auto code = static_cast<unsigned long>(static_cast<unsigned>(error));
  const char* const reason =
      ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_reason_error_string(code) : nullptr;
  if (reason == nullptr) return "";
  if (ERR_GET_REASON(code) != SSL_R_CERTIFICATE_VERIFY_FAILED) return fmt::format(": {}", reason);
  const long fault = *latest_;
  // The HTTP library compares the names itself and gives OpenSSL no reason.
  if (fault == X509_V_OK || fault == X509_V_ERR_UNSPECIFIED) {
    return fmt::format(": found a certificate of another name, expected one of {}", host);
  }
  return fmt::format(": {}", X509_verify_cert_error_string(fault));
}

}  // namespace lockstep::kube
