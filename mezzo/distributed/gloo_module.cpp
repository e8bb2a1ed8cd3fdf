#include "mezzo/distributed/gloo_module.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

struct MezzoGloo {
  std::shared_ptr<gloo::rendezvous::Context> context;
};

namespace {

// Processes wait for one that evaluates or writes a checkpoint; whether it still lives is for
// others to find out. Gloo's own word for no limit is not understood by all of its functions.
constexpr std::chrono::hours kNoLimit(24 * 365);

class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(const MezzoGlooStore& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (!store_.set(store_.self, key.c_str(), data.data(), data.size())) {
      throw std::runtime_error("the addresses of this process could not be sent");
    }
  }
  std::vector<char> get(const std::string& key) override {
    std::size_t count = 0;
    const char* bytes = store_.get(store_.self, key.c_str(), &count);
    if (bytes == nullptr) throw std::runtime_error("another process has sent no addresses");
    return {bytes, bytes + count};
  }
  // get() waits.
  void wait(const std::vector<std::string>& /*keys*/) override {}
  void wait(const std::vector<std::string>& /*keys*/,
            const std::chrono::milliseconds& /*timeout*/) override {}

 private:
  MezzoGlooStore store_;
};

// Versions before April 2025 take a reference.
template <class Context>
void connect_all(Context& context, const std::shared_ptr<Store>& store,
                 std::shared_ptr<gloo::transport::Device>& device) {
  if constexpr (requires { context.connectFullMesh(store, device); }) {
    context.connectFullMesh(store, device);
  } else {
    context.connectFullMesh(*store, device);
  }
}

void copy_text(std::string_view text, MezzoGlooError& error) {
  const std::size_t count = std::min(text.size(), sizeof(error.text) - 1);
  std::copy_n(text.data(), count, error.text);
  error.text[count] = 0;
}

template <class Action>
bool is_done(MezzoGlooError* error, const Action& action) {
  try {
    action();
    return true;
  } catch (const std::exception& failure) {
    copy_text(failure.what(), *error);
  } catch (...) {
    copy_text("an unknown error", *error);
  }
  return false;
}

// Groups live until the process ends: others may still be reading what it has sent last.
MezzoGloo* kept(std::unique_ptr<MezzoGloo> group) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<MezzoGloo>>;
  const std::lock_guard lock(mutex);
  return all->emplace_back(std::move(group)).get();
}

// Gloo does not write to what it is given as input.
std::uint8_t* input_of(const void* bytes) {
  return static_cast<std::uint8_t*>(const_cast<void*>(bytes));
}

}  // namespace

#define MEZZO_GLOO_EXPORT __attribute__((visibility("default")))

MEZZO_GLOO_EXPORT int mezzo_gloo_interface() { return MEZZO_GLOO_INTERFACE; }

MEZZO_GLOO_EXPORT MezzoGloo* mezzo_gloo_connect(int rank, int size, const char* address,
                                                int seconds, const MezzoGlooStore* store,
                                                MezzoGlooError* error) {
  auto group = std::make_unique<MezzoGloo>();
  const bool is_connected = is_done(error, [&] {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    group->context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    group->context->setTimeout(std::chrono::seconds(seconds));
    connect_all(*group->context, std::make_shared<Store>(*store), device);
    group->context->setTimeout(kNoLimit);
  });
  return is_connected ? kept(std::move(group)) : nullptr;
}

MEZZO_GLOO_EXPORT bool mezzo_gloo_broadcast(MezzoGloo* group, void* bytes, std::size_t count,
                                            MezzoGlooError* error) {
  return is_done(error, [&] {
    gloo::BroadcastOptions options(group->context);
    options.setOutput(static_cast<std::uint8_t*>(bytes), count);
    options.setRoot(0);
    gloo::broadcast(options);
  });
}

MEZZO_GLOO_EXPORT bool mezzo_gloo_all_to_all(MezzoGloo* group, const void* send, void* receive,
                                             std::size_t count, MezzoGlooError* error) {
  return is_done(error, [&] {
    const std::size_t all = count * static_cast<std::size_t>(group->context->size);
    gloo::AlltoallOptions options(group->context);
    options.setInput(input_of(send), all);
    options.setOutput(static_cast<std::uint8_t*>(receive), all);
    gloo::alltoall(options);
  });
}

MEZZO_GLOO_EXPORT bool mezzo_gloo_all_gather(MezzoGloo* group, const void* send, void* receive,
                                             std::size_t count, MezzoGlooError* error) {
  return is_done(error, [&] {
    gloo::AllgatherOptions options(group->context);
    options.setInput(input_of(send), count);
    options.setOutput(static_cast<std::uint8_t*>(receive),
                      count * static_cast<std::size_t>(group->context->size));
    gloo::allgather(options);
  });
}
