// Gloo's lookup of a bind address throws before it frees what getaddrinfo gave it, when the address
// is not this host's. Read by LeakSanitizer if the test is built with it.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDeviceAttr\n";
}
