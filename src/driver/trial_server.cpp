// SPDX-License-Identifier: Apache-2.0
// The command's part in trials on a GPU.
#include <optional>

#include <fmt/format.h>

#include "base/companion.hpp"
#include "codetta/device.hpp"
#include "diag/diagnostic.hpp"
#include "driver/build_id.hpp"
#include "driver/trial_messages.hpp"
#include "package/bytes.hpp"
#include "runtime/cuda/detached.hpp"
#include "runtime/hip/driver.hpp"

namespace codetta::driver {

namespace {

constexpr uint64_t longest_text = 1 << 20;

Result<runtime::cuda::DeviceRef> open(const TrialHello& hello) {
  CODETTA_TRY(runtime::cuda::DriverRef driver, hello.backend == Backend::hip
                                                   ? runtime::hip::load(hello.driver)
                                                   : runtime::cuda::Driver::load(hello.driver));
  return runtime::cuda::Device::open(std::move(driver), hello.device);
}

TrialAnswer greet(const TrialHello& hello, runtime::cuda::DeviceRef& device) {
  if (hello.build != build_id())
    return {TrialAnswer::Kind::Unable, fmt::format("it is of another build ({})", build_id())};
  auto opened = open(hello);
  if (!opened) return {TrialAnswer::Kind::Unable, diag::sentence(opened.error())};
  device = *std::move(opened);
  return {TrialAnswer::Kind::Made, {}};
}

// The last answer; the one before it is sent.
TrialAnswer try_once(const runtime::cuda::DeviceRef& device, std::string_view bytes, int socket) {
  auto made = runtime::cuda::DetachedExecution::make(device, bytes);
  Result<void> ran = made ? Result<void>() : Result<void>(made.error());
  if (made) {
    if (!base::write_frame(socket, TrialAnswer{TrialAnswer::Kind::Made, {}}.encode())) return {};
    ran = made->execution->run(nullptr);
  }
  if (Result<void> waited = device->synchronize(); ran || !waited) ran = std::move(waited);
  if (ran) return {TrialAnswer::Kind::Ran, {}};
  const bool lost = ran.error().code() == static_cast<uint16_t>(diag::Code::device_failed);
  return {lost   ? TrialAnswer::Kind::Lost
          : made ? TrialAnswer::Kind::Ran
                 : TrialAnswer::Kind::Unable,
          diag::sentence(ran.error())};
}

}  // namespace

std::string TrialHello::encode() const {
  package::ByteWriter to;
  to.choice(backend);
  to.text(driver);
  to.integer(device);
  to.text(build);
  return std::move(to).take();
}

TrialHello TrialHello::decode(std::string_view frame) {
  package::ByteReader from(frame);
  TrialHello hello;
  hello.backend = from.choice<Backend>(static_cast<uint64_t>(Backend::hip) + 1, "backend");
  hello.driver = from.text(longest_text, "driver");
  hello.device = from.small(0, INT32_MAX, "device");
  hello.build = from.text(longest_text, "build");
  if (!from.ok()) hello.build.clear();
  return hello;
}

std::string TrialAnswer::encode() const {
  package::ByteWriter to;
  to.choice(kind);
  to.text(text);
  return std::move(to).take();
}

TrialAnswer TrialAnswer::decode(std::string_view frame) {
  package::ByteReader from(frame);
  TrialAnswer answer;
  answer.kind = from.choice<Kind>(4, "answer");
  answer.text = from.text(longest_text, "text");
  if (!from.ok()) return {Kind::Unable, "its answer is damaged: " + from.reason()};
  return answer;
}

}  // namespace codetta::driver

int codetta::serve_trials(int socket) {
  using namespace driver;
  base::be_companion();
  const base::FileDescriptor own = base::keep_for_frames(socket);
  socket = own.get();
  std::string frame;
  runtime::cuda::DeviceRef device;
  if (!base::read_frame(socket, frame)) return 1;
  const TrialAnswer greeting = greet(TrialHello::decode(frame), device);
  if (!base::write_frame(socket, greeting.encode()) || device == nullptr) return 1;
  while (base::read_frame(socket, frame)) {
    const TrialAnswer answer = try_once(device, frame, socket);
    if (!base::write_frame(socket, answer.encode())) return 1;
    if (answer.kind == TrialAnswer::Kind::Lost) return 1;
  }
  return 0;
}
