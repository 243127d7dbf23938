// SPDX-License-Identifier: Apache-2.0
// Every feature that docs/features.md says Metal text runs, run: all of them are functions of one library, whose
// kernels do nothing.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "base/files.hpp"
#include "codetta/io.hpp"
#include "emit/host/metal.hpp"
#include "emit/host/signature.hpp"
#include "metal_host/host_runner.hpp"
#include "unit/features/gpu_packages.hpp"

namespace codetta::features {
namespace {

struct MetalTensor {
  void* buffer;
  uint64_t offset;
};

TEST(MetalFeatures, EveryOneThatHasAText) {
  if (!metal_host::missing().empty()) GTEST_SKIP() << metal_host::missing();
  ASSERT_EQ(metal_host::broken(), "");
  const Target target{Backend::metal, CpuIsa::generic, "apple9"};
  const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-metal-features-");
  ASSERT_TRUE(folder);
  std::vector<Feature> all = all_features();
  std::vector<const Feature*> there;
  emit::host::Library library;
  library.name = "features";
  library.target = target;
  library.version = "0";
  library.carried_file = "carried.safetensors";
  library.weights_file = "weights.safetensors";
  std::string caller = "#include \"features.h\"\n";
  for (const Feature& feature : all) {
    emit::host::Library alone = library;
    emit::host::Program program;
    program.function = "f" + std::to_string(there.size());
    package::Package package = gpu_package(feature, target);
    for (package::Kernel& kernel : package.kernels) kernel.source = "extern \"C\" void gemm() {}\n";
    for (uint32_t b = 0; b < package.buffers.size(); ++b) {
      const package::Buffer& buffer = package.buffers[b];
      if (buffer.role == package::Buffer::Role::Constant)
        program.constants.push_back({b, {1}, buffer.external.empty() ? "codetta_constant_0" : "", buffer.external});
    }
    program.package = std::make_shared<const package::Package>(std::move(package));
    alone.programs = {program};
    if (!emit::host::check_metal_library(alone)) continue;
    there.push_back(&feature);
    caller += "__attribute__((visibility(\"default\"))) int call_" + program.function +
              "(const features_tensor* t, const int64_t* s) {\n  (void)t, (void)s;\n  return features_" +
              program.function + "(";
    int tensors = 0, scalars = 0;
    for (const uint32_t b : emit::host::signature_of(program).arguments) {
      const bool number = program.package->buffers[b].is_scalar;
      caller += (number ? "s[" + std::to_string(scalars++) : "t[" + std::to_string(tensors++)) + "], ";
    }
    caller += "(void*)0);\n}\n";
    library.programs.push_back(std::move(program));
  }
  ASSERT_TRUE(emit::host::check_metal_library(library));
  for (const emit::host::File& file : emit::host::print_metal(library))
    std::ofstream(folder->path() + "/" + file.name) << file.text;
  std::ofstream(folder->path() + "/caller.c") << caller;
  const uint8_t bytes[4] = {};
  const float one = 1;
  ASSERT_TRUE(write_safetensors(folder->path() + "/carried.safetensors",
                                {{"codetta_constant_0", TensorView::make(bytes, u8, {4}).value()}}));
  ASSERT_TRUE(write_safetensors(folder->path() + "/weights.safetensors",
                                {{"weight", TensorView::make(&one, f32, {1}).value()}}));
  std::string why;
  void* const handle = metal_host::load_library(folder->path(), "features", why);
  ASSERT_NE(handle, nullptr) << why;
  const auto error = reinterpret_cast<const char* (*)()>(::dlsym(handle, "features_get_last_error"));
  const MetalControl& metal = metal_host::metal();
  for (size_t i = 0; i < there.size(); ++i) {
    const Feature& feature = *there[i];
    std::vector<MetalTensor> tensors;
    std::vector<int64_t> scalars;
    for (const uint32_t b : emit::host::signature_of(library.programs[i]).arguments) {
      const package::Buffer& buffer = library.programs[i].package->buffers[b];
      if (buffer.is_scalar) {
        scalars.push_back(feature.program->bindings.scalars[b].i);
        continue;
      }
      const TensorView& view = feature.program->bindings.tensors[b];
      const auto size = static_cast<size_t>(view.element_count() * dtype_size(view.dtype()));
      tensors.push_back({metal.buffer(size), 0});
      std::memcpy(metal.contents(tensors.back().buffer), view.data(), size);
    }
    const auto call = reinterpret_cast<int (*)(const MetalTensor*, const int64_t*)>(
        ::dlsym(handle, ("call_f" + std::to_string(i)).c_str()));
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call(tensors.data(), scalars.data()), 0) << feature.row << ": " << error();
    for (const MetalTensor& tensor : tensors) metal.release(tensor.buffer);
  }
  EXPECT_GT(there.size(), 30u);
}

}  // namespace
}  // namespace codetta::features
