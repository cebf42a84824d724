#include "tests/integration/api_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "api/v1/yaml.h"
#include "tests/operator/local/client_conformance.h"
#include "tests/support/eventually.h"
#include "tests/support/folders.h"
#include "tests/support/temp_directory.h"

namespace lockstep::testing {
namespace {

const kube::Kind kNamespaceKind{"", "v1", "Namespace", "namespaces", false};
const kube::Kind kDefinitionKind{"apiextensions.k8s.io", "v1", "CustomResourceDefinition",
                                 "customresourcedefinitions", false};

constexpr char kWidgetDefinition[] = R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
)";

}  // namespace

// tools/kube/api-server as a child. It ends when its standard input does.
class ServerProcess {
 public:
  explicit ServerProcess(const std::string& directory) {
    std::array<int, 2> input{}, output{};
    if (pipe2(input.data(), O_CLOEXEC) != 0 || pipe2(output.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    std::string program = LOCKSTEP_SOURCE_DIR "/tools/kube/api-server";
    std::string where = directory;
    std::array<char*, 3> args{program.data(), where.data(), nullptr};
    const int error =
        posix_spawn(&child_, program.c_str(), &actions, nullptr, args.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    if (error != 0) throw std::runtime_error(program + ": " + std::strerror(error));
    // The whole line: the program would fail at writing the rest into a closed pipe.
    std::string word;
    for (char c = 0; read(output[0], &c, 1) == 1 && c != '\n';) word += c;
    close(output[0]);
    if (word != "ready") {
      Stop();
      throw std::runtime_error("the API server did not start; its reason stands above");
    }
  }
  ~ServerProcess() { Stop(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

 private:
  void Stop() {
    if (input_ < 0) return;
    close(std::exchange(input_, -1));
    waitpid(child_, nullptr, 0);
  }

  pid_t child_ = -1;
  int input_ = -1;
};

// Stops the server before main returns.
class ApiServerEnvironment final : public ::testing::Environment {
 public:
  static ApiServerEnvironment& Get() {
    static auto* const environment = new ApiServerEnvironment;  // gtest owns and deletes it
    return *environment;
  }

  const ApiServer& Server() {
    if (!server_) {
      directory_ = std::make_unique<TempDirectory>();
      process_ = std::make_unique<ServerProcess>(directory_->path());
      server_.reset(new ApiServer(directory_->path()));
    }
    return *server_;
  }
  void TearDown() override {
    server_.reset();
    process_.reset();
    directory_.reset();
  }

 private:
  std::unique_ptr<TempDirectory> directory_;
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<ApiServer> server_;
};

namespace {
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(&ApiServerEnvironment::Get());
}  // namespace

const ApiServer& ApiServer::Get() {
  return ApiServerEnvironment::Get().Server();
}

ApiServer::ApiServer(std::string directory) : directory_(std::move(directory)) {
  auto config = kube::LoadKubeconfig(directory_ + "/kubeconfig");
  if (!config.ok()) throw std::runtime_error(config.status().ToString());
  config_ = *std::move(config);
}

int ApiServer::port() const {
  return std::stoi(config_.server.substr(config_.server.rfind(':') + 1));
}

std::unique_ptr<kube::RestClient> ApiServer::Connect(kube::RestClientOptions options) const {
  return MustConnect(config_, std::move(options));
}

std::unique_ptr<kube::RestClient> MustConnect(const kube::RestConfig& config,
                                              kube::RestClientOptions options) {
  auto client = kube::MakeRestClient(config, std::move(options));
  if (!client.ok()) throw std::runtime_error(client.status().ToString());
  return *std::move(client);
}

std::string NewNamespace(kube::Client& client) {
  static std::atomic<int> count{0};
  const std::string name = fmt::format("test-{}", ++count);
  const auto made =
      client.Create(kNamespaceKind,
                    {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}});
  if (!made.ok()) throw std::runtime_error(made.status().ToString());
  return name;
}

void InstallDefinition(kube::Client& client, const std::string& yaml, const kube::Kind& kind) {
  const auto documents = api::ParseYaml(yaml, "definition");
  if (!documents.ok()) throw std::runtime_error(documents.status().ToString());
  const auto made = client.Create(kDefinitionKind, documents->at(0));
  if (!made.ok() && !absl::IsAlreadyExists(made.status())) {
    throw std::runtime_error(made.status().ToString());
  }
  if (!Eventually([&] { return client.List(kind, {}).ok(); })) {
    throw std::runtime_error(kind.plural + " are not served");
  }
}

void InstallWidgets(kube::Client& client) {
  InstallDefinition(client, kWidgetDefinition, local::kWidgetKind);
}

}  // namespace lockstep::testing
