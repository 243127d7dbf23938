// SPDX-License-Identifier: Apache-2.0
// Launches of kernels of the user's as C++ host text for a GPU (device/host/gpu_user.h).
#include "device/host/user_launch.h"
#include "device/host/user_maps.h"
#include "emit/host/steps.hpp"
#include "emit/host/text.hpp"
#include "package/only_on_nvidia.hpp"
#include "package/plain_map.hpp"

namespace codetta::emit::host {

using base::CodeWriter;
using types::Dim;

namespace {

template <class Range, class F>
std::string joined(const Range& range, F&& item) {
  std::string text;
  for (const auto& one : range) text += (text.empty() ? "" : ", ") + std::string(item(one));
  return text;
}

using PlainMap = codetta::gpu::host::UserMap;

}  // namespace

bool has_gpu_user(const package::Package& package) {
  for (const package::Kernel& kernel : package.kernels) {
    if (std::holds_alternative<package::GpuUserConfig>(kernel.config)) return true;
  }
  return false;
}

std::string lacking_in_user(const package::Package& package, const package::LaunchKernel& step,
                            const package::Kernel& kernel) {
  if (!std::holds_alternative<package::GpuUserConfig>(kernel.config)) return kernel.name + " is no kernel for a GPU";
  const std::string_view nvidia = package::only_on_nvidia(step.options);
  if (package.target.backend == Backend::hip && !nvidia.empty())
    return kernel.name + " asks for " + std::string(nvidia) + ", which are of NVIDIA GPUs";
  using codetta::gpu::host::most_user_maps, codetta::gpu::host::most_user_values;
  if (step.options.maps.size() > most_user_maps)
    return kernel.name + " takes more than " + std::to_string(most_user_maps) + " tensor maps";
  if (step.arguments.size() + step.options.sizes.size() > most_user_values)
    return kernel.name + " takes more than " + std::to_string(most_user_values) + " values";
  return {};
}

void print_ascends(CodeWriter& out, int32_t dim, const std::string& name, const std::string& stride, bool others) {
  const std::string negative = stride + " < 0";
  if (others) out.line("unaligned = ", negative, ";");
  out.line("if (", others ? "unaligned" : negative, ")");
  out.line("  return fail(bad_sizes, \"E0610: the stride of dim ", dim,
           " of %s is negative: it is %lld elements, and a kernel takes it\", ", name, ", static_cast<long long>(",
           stride, "));");
}

void print_user_launch(CodeWriter& out, const package::Package& package, const package::LaunchKernel& step,
                       const std::string& symbol, const std::function<std::string(const Dim&)>& number) {
  const package::Kernel& kernel = package.kernels[step.kernel];
  const package::LaunchOptions& o = step.options;
  const auto numbers = [&](const auto& dims) { return joined(dims, number); };
  size_t i = 0;
  out.line("const UserValue values[] = {",
           joined(step.arguments,
                  [&](uint32_t b) {
                    const package::Argument& argument = kernel.epilogue.arguments[i++];
                    return argument.is_scalar
                               ? CodeWriter::text_of("user_number(frame.scalars[", b, "], ",
                                                     static_cast<int>(package.buffers[b].dtype), ")")
                               : CodeWriter::text_of("user_tensor(v[", b, "], ", literal_text(package.buffers[b].name),
                                                     ", ", argument.is_output, ")");
                  }),
           "};");
  if (!o.maps.empty()) {
    const auto maps = out.block_with("};", "static constexpr plan::UserMap maps[] = ");
    for (const package::TensorMap& map : o.maps) {
      const size_t rank = package.buffers[step.arguments[map.argument]].shape.size();
      const auto m = package::plain_map<PlainMap>(map, rank);
      const auto numbers_of = [](const auto& values) {
        return "{" + joined(values, [](int32_t value) { return std::to_string(value); }) + "}";
      };
      out.line("{.im2col = ", m.im2col, ", .argument = ", m.argument, ", .box = ", numbers_of(m.box),
               ", .steps = ", numbers_of(m.steps), ", .lower = ", numbers_of(m.lower),
               ", .upper = ", numbers_of(m.upper), ", .channels = ", m.channels, ", .pixels = ", m.pixels,
               ", .swizzle = ", m.swizzle, ", .interleave = ", m.interleave, ", .promotion = ", m.promotion,
               ", .nan_outside = ", m.nan_outside, "},");
    }
  }
  if (!o.sizes.empty()) out.line("const Number sizes[] = {", numbers(o.sizes), "};");
  {
    const auto one = out.block_with("};", "const UserStep one = ");
    out.line(".values = values, .value_count = ", step.arguments.size(),
             ", .sizes = ", o.sizes.empty() ? "nullptr" : "sizes", ", .size_count = ", o.sizes.size(), ",");
    out.line(".narrow = ", package::gpu_user(kernel.config).narrow, ", .grid = {", numbers(o.grid), "}, .block = {",
             numbers(o.block), "}, .shared = ", number(o.shared_bytes), ",");
    out.line(".cluster = {", o.cluster[0], ", ", o.cluster[1], ", ", o.cluster[2], "}, .cooperative = ", o.cooperative,
             ", .programmatic = ", o.programmatic, ",");
    if (o.window) {
      out.line(".window = ", o.window->argument, ", .window_bytes = ", number(o.window->bytes),
               ", .per_mille = ", o.window->per_mille, ",");
    } else {
      out.line(".window = -1, .window_bytes = Number(0), .per_mille = 0,");
    }
    out.line(".maps = ", o.maps.empty() ? "nullptr" : "maps", ", .map_count = ", o.maps.size(), ",");
    const package::GpuUserConfig& config = package::gpu_user(kernel.config);
    if (config.hook >= 0) {
      out.line(".hook = {", config.hook, ", ", config.hook_first, ", ", config.hook_arguments, ", ", config.hook_sizes,
               "},");
    } else {
      out.line(".hook = {},");
    }
  }
  out.line("CODETTA_OK(launch_user(frame, ", symbol, ", one));");
}

void print_cpu_user(CodeWriter& out, const package::Package& package, const package::LaunchKernel& step,
                    const std::string& function) {
  const package::Kernel& kernel = package.kernels[step.kernel];
  std::vector<uint32_t> inputs, outputs;
  for (size_t i = 0; i < step.arguments.size(); ++i)
    (kernel.epilogue.arguments[i].is_output ? outputs : inputs).push_back(step.arguments[i]);
  const auto scope = out.block("if (frame.running)");
  out.line("// ", kernel.name);
  print_extern_tensors(out, package, "inputs", inputs);
  print_extern_tensors(out, package, "outputs", outputs);
  out.line("CODETTA_OK(user_status(", function, "(nullptr, inputs, ", inputs.size(), ", outputs, ", outputs.size(),
           "), ", literal_text(kernel.name), "));");
}

}  // namespace codetta::emit::host
