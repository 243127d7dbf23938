// SPDX-License-Identifier: Apache-2.0
// The library behind a C interface, so that bench/gpu/suite.py can run kernels on PyTorch's tensors and streams, in
// turn with PyTorch's own. All functions fill `message` (of `room` bytes, always ended by a zero) on failure.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codetta/codetta.hpp"

namespace {

using namespace codetta;

extern "C" {
struct BridgeTensor {
  const char* name;
  void* data;  // of the device
  const char* dtype;
  int32_t rank;
  int64_t shape[3], strides[3];  // strides in elements
};
struct BridgeScalar {
  const char* name;
  double value;
};
}

struct Prepared {
  GemmArguments arguments;
  KernelList kernels;
  Execution execution{};
  size_t kernel = 0;
};

Result<TensorView> view_of(const BridgeTensor& tensor) {
  Dims shape, strides;
  for (int i = 0; i < tensor.rank; ++i) {
    shape.push_back(tensor.shape[i]);
    strides.push_back(tensor.strides[i]);
  }
  return TensorView::make(tensor.data, dtype_from_name(tensor.dtype).value_or(f32), shape, strides);
}

void say(const std::string& text, char* message, int64_t room) {
  const size_t length = std::min(text.size(), static_cast<size_t>(room - 1));
  std::memcpy(message, text.data(), length);
  message[length] = 0;
}

Result<GemmArguments> arguments_of(const char* epilogue, const BridgeTensor* tensors, int count,
                                   const BridgeScalar* scalars, int scalar_count, const char* math) {
  GemmArguments arguments;
  arguments.math = math_mode_from_name(math).value_or(MathMode::Strict);
  std::vector<NamedArgument> named;
  for (int i = 0; i < count; ++i) {
    auto view = view_of(tensors[i]);
    if (!view) return std::move(view).error();
    const std::string_view name = tensors[i].name;
    if (name == "A") {
      arguments.A = *view;
    } else if (name == "B") {
      arguments.B = *view;
    } else if (name == "D") {
      arguments.out = *view;
    } else {
      named.push_back({std::string(name), *view});
    }
  }
  for (int i = 0; i < scalar_count; ++i) named.push_back({scalars[i].name, scalars[i].value});
  if (epilogue[0] != 0) {
    auto bound = EpilogueArguments::make(epilogue, std::move(named));
    if (!bound) return std::move(bound).error();
    arguments.epilogue = *std::move(bound);
  }
  return arguments;
}

// Kernels of our own, or those of the vendor's library beside them.
Context& context_for(bool vendor) {
  static Context own = Context::make({.vendor = false}).value(), all = Context::make({}).value();
  return vendor ? all : own;
}

Result<std::unique_ptr<Prepared>> prepare(GemmArguments arguments, const char* only, bool vendor, int candidates) {
  auto made = std::make_unique<Prepared>();
  made->arguments = std::move(arguments);
  auto target = Target::parse("cuda");
  if (!target) return std::move(target).error();
  DiscoveryOptions options;
  if (only[0] != 0) {
    options.filter = [wanted = std::string(only)](const KernelMetadata& kernel) {
      return kernel.name.find(wanted) != std::string::npos;
    };
  }
  if (candidates > 0) {
    TuneOptions tuning;
    tuning.max_candidates = static_cast<size_t>(candidates);
    auto report = tune(made->arguments, *target, tuning, context_for(vendor));
    if (!report) return std::move(report).error();
  }
  auto kernels = find_kernels(made->arguments, *target, options, context_for(vendor));
  if (kernels && kernels->empty() && only[0] != 0) {  // a variant that is not listed
    options.all = true;
    kernels = find_kernels(made->arguments, *target, options, context_for(vendor));
  }
  if (!kernels) return std::move(kernels).error();
  made->kernels = *std::move(kernels);
  auto execution = made->kernels.prepare(made->arguments, &made->kernel);
  if (!execution) return std::move(execution).error();
  made->execution = *std::move(execution);
  return made;
}

}  // namespace

extern "C" {

// A prepared kernel, or null. `math`: a math mode's name. `only`: part of a kernel's name, or "". `vendor`: kernels of
// the vendor's library are candidates, too. `candidates`: tune over so many before, 0: don't.
__attribute__((visibility("default"))) void* bridge_prepare(const char* epilogue, const BridgeTensor* tensors,
                                                            int32_t count, const BridgeScalar* scalars,
                                                            int32_t scalar_count, const char* math, const char* only,
                                                            int32_t vendor, int32_t candidates, char* message,
                                                            int64_t room) {
  auto arguments = arguments_of(epilogue, tensors, count, scalars, scalar_count, math);
  if (!arguments) {
    say(arguments.error().render(), message, room);
    return nullptr;
  }
  auto made = prepare(*std::move(arguments), only, vendor != 0, candidates);
  if (made) return made->release();
  say(made.error().render(), message, room);
  return nullptr;
}

__attribute__((visibility("default"))) int32_t bridge_run(void* prepared, void* stream, char* message, int64_t room) {
  auto done = static_cast<Prepared*>(prepared)->execution.run(Stream::from_cuda(stream));
  if (!done) say(done.error().render(), message, room);
  return done ? 0 : 1;
}

// All kernels in their order, a line each: "cuda_sm90_128x256x64_sm_90a 183.2", name and estimated microseconds. 0: ok.
__attribute__((visibility("default"))) int32_t bridge_kernels(const char* epilogue, const BridgeTensor* tensors,
                                                              int32_t count, const char* math, char* message,
                                                              int64_t room) {
  const auto list = [&]() -> Result<std::string> {
    auto arguments = arguments_of(epilogue, tensors, count, nullptr, 0, math);
    if (!arguments) return std::move(arguments).error();
    auto target = Target::parse("cuda");
    if (!target) return std::move(target).error();
    DiscoveryOptions options;
    options.max_candidates = 1000;
    auto kernels = find_kernels(*arguments, *target, options, context_for(false));
    if (!kernels) return std::move(kernels).error();
    std::string lines;
    for (size_t i = 0; i < kernels->size(); ++i) {
      const KernelMetadata& kernel = (*kernels)[i].metadata();
      lines += kernel.name + " " + std::to_string(kernel.estimated_us) + "\n";
    }
    return lines;
  }();
  say(list ? *list : list.error().render(), message, room);
  return list ? 0 : 1;
}

// "cuda_sm90_128x256x64_sm_90a\n1.25": its name and the milliseconds that the compiler took.
__attribute__((visibility("default"))) void bridge_describe(void* prepared, char* message, int64_t room) {
  const auto& p = *static_cast<Prepared*>(prepared);
  say(p.kernels[p.kernel].metadata().name + "\n" + std::to_string(p.execution.compile_seconds() * 1e3), message, room);
}

__attribute__((visibility("default"))) void bridge_release(void* prepared) { delete static_cast<Prepared*>(prepared); }

}  // extern "C"
