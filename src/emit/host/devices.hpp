// SPDX-License-Identifier: Apache-2.0
// Which devices of a GPU's program its steps are of, and what C++ host text says of several
// (device/host/gpu_devices.h). Texts of one device are as if there were no others. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/code_writer.hpp"
#include "emit/host/cpp.hpp"

namespace codetta::emit::host {

// How many devices a package uses, the most for all of a library; on a CPU all are one.
uint32_t devices_of(const package::Package& package);
uint32_t devices_of(const Library& library);
inline constexpr uint32_t most_devices = 64;

// On which device a step works or reads; nullopt: on that of its scope, on several (a copy between them), or on none.
std::optional<uint32_t> device_of(const package::Package& package, const package::Step& step);
bool is_between_devices(const package::Package& package, const package::Copy& copy);
// Of a kernel of the package: a bit for each device that launches it, or does its steps on elements.
uint64_t devices_of_kernel(const package::Package& package, uint32_t kernel);

// The device that steps are at while text is printed.
class DeviceTrack {
 public:
  explicit DeviceTrack(const package::Package& package) : package_(package), count_(devices_of(package)) {}

  [[nodiscard]] bool several() const { return count_ > 1; }
  [[nodiscard]] uint32_t count() const { return count_; }
  void enter(uint32_t device) { scopes_.push_back(device); }
  void leave() { scopes_.pop_back(); }
  [[nodiscard]] uint32_t scope() const { return scopes_.empty() ? 0 : scopes_.back(); }
  // Whether text has to say that what follows is of this device; then it is there.
  bool moves_to(uint32_t device);
  // The same in front of a step: of which device.
  std::optional<uint32_t> moves_for(const package::Step& step);
  // Behind what may or may not have run.
  void unknown() { at_.reset(); }

 protected:
  const package::Package& package_;

 private:
  uint32_t count_;
  std::vector<uint32_t> scopes_{};
  std::optional<uint32_t> at_ = 0;
};

// With lines of C++ text.
class DeviceLines : public DeviceTrack {
 public:
  DeviceLines(base::CodeWriter& out, const package::Package& package) : DeviceTrack(package), out_(out) {}

  [[nodiscard]] const char* frame_type() const { return several() ? "DevicesFrame" : "GpuFrame"; }
  // In front of a step.
  void step(const package::Step& step) {
    if (const auto device = moves_for(step)) print(*device);
  }
  void at(uint32_t device) {
    if (moves_to(device)) print(device);
  }
  // What branches and the passes of a loop place lies behind what was placed before them, on every device.
  void mark();
  void restore();
  // Tensors of a call of a function of the caller's say where they lie.
  // `shared`: in front of the name of the call's result.
  void tell_tensors(const package::CallExtern& call, const std::string& shared);

 private:
  void print(uint32_t device);

  base::CodeWriter& out_;
};

}  // namespace codetta::emit::host
