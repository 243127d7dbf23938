// SPDX-License-Identifier: Apache-2.0
// Packages of steps on the pretended device, whose memory the test reads as its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/stream.hpp"
#include "unit/runtime/step_program.hpp"
#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::runtime::cuda {

class OnPretendedDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.managed = true;
    device_ = Device::open(Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
    stream_.emplace(OwnedStream::make(device_).value());
    std::string image =
        "\x7f"
        "ELFnothing";
    image.resize(256);
    module_ = Module::load(device_, image, "test").value();
    p_.package.target = {Backend::cuda, CpuIsa::generic, "sm_90a"};
  }
  Result<Execution> prepare(Observer observer = {}) {
    package_ = std::make_shared<const package::Package>(p_.package);
    FromOutside outside{p_.options.externs, p_.options.weights};
    return Execution::make(package_, {module_}, p_.bindings,
                           {.outside = std::move(outside), .observer = std::move(observer)});
  }

  codetta::test::FakeDriver& fake_ = codetta::test::fake_driver(CODETTA_FAKE_DRIVER);
  DeviceRef device_;
  ModuleRef module_;
  std::optional<OwnedStream> stream_;
  test::StepProgram p_;
  package::PackageRef package_;  // of the last prepare()
};

}  // namespace codetta::runtime::cuda
