// SPDX-License-Identifier: Apache-2.0
#include "emit/host/python_user.hpp"

#include <fmt/format.h>

#include "device/host/user_maps.h"
#include "emit/host/python_text.hpp"
#include "package/plain_map.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::host {

using types::Dim;

namespace {

using PlainMap = codetta::gpu::host::UserMap;

// "(4, 8)", "(4,)".
template <class Range, class F>
std::string tuple_of(const Range& range, F&& item) {
  std::string text;
  for (const auto& one : range) text += fmt::format("{}{}", text.empty() ? "" : ", ", item(one));
  return "(" + text + (std::size(range) == 1 ? ",)" : ")");
}

std::string numbers_of(const int32_t* values, size_t count) {
  return tuple_of(std::vector<int32_t>(values, values + count), [](int32_t value) { return value; });
}

// "_tiled(0, (32, 4), (1, 1), swizzle=3)". What is not said is 0.
std::string map_of(const package::TensorMap& map, size_t rank) {
  const auto m = package::plain_map<PlainMap>(map, rank);
  const size_t spatial = rank > 2 ? rank - 2 : 0;
  std::string text =
      m.im2col ? fmt::format("_im2col({}, {}, {}, {}, {}, {}", m.argument, numbers_of(m.lower, spatial),
                             numbers_of(m.upper, spatial), m.channels, m.pixels, numbers_of(m.steps, rank))
               : fmt::format("_tiled({}, {}, {}", m.argument, numbers_of(m.box, rank), numbers_of(m.steps, rank));
  const std::pair<const char*, int32_t> words[] = {
      {"swizzle", m.swizzle}, {"interleave", m.interleave}, {"promotion", m.promotion}};
  for (const auto& [word, value] : words) {
    if (value != 0) text += fmt::format(", {}={}", word, value);
  }
  return text + (m.nan_outside ? ", nan_outside=True)" : ")");
}

}  // namespace

std::vector<std::string> user_launch_lines(const package::Package& package, const package::LaunchKernel& step,
                                           size_t number, const std::function<std::string(const Dim&)>& expression) {
  const package::Kernel& kernel = package.kernels[step.kernel];
  const package::LaunchOptions& o = step.options;
  const package::GpuUserConfig& config = package::gpu_user(kernel.config);
  std::vector<std::string> lines{fmt::format("_launch_own(engine, {}, [  # {}", number, py_comment(kernel.name))};
  std::string values;
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    const uint32_t b = step.arguments[i];
    const package::Buffer& buffer = package.buffers[b];
    const int dtype = static_cast<int>(buffer.dtype);
    values += (i == 0 ? "" : ", ") + (buffer.is_scalar
                                          ? fmt::format("_bits(a{}, {})", b, dtype)
                                          : fmt::format("(v{}, {}, {}, {})", b, py_quoted(buffer.name), dtype,
                                                        kernel.epilogue.arguments[i].is_output ? "True" : "False"));
  }
  lines.push_back(values + "],");
  // Evaluated in there: without a launch sizes of it need no values.
  std::string launch =
      fmt::format("lambda: dict(grid={}, block={}", tuple_of(o.grid, expression), tuple_of(o.block, expression));
  if (!(o.shared_bytes == Dim())) launch += ", shared=" + expression(o.shared_bytes);
  if (o.cluster != std::array<int32_t, 3>{1, 1, 1})
    launch += fmt::format(", cluster=({}, {}, {})", o.cluster[0], o.cluster[1], o.cluster[2]);
  if (o.cooperative) launch += ", cooperative=True";
  if (o.programmatic) launch += ", programmatic=True";
  lines.push_back(std::move(launch));
  if (!o.sizes.empty()) {
    std::string sizes = "sizes=[";
    for (size_t i = 0; i < o.sizes.size(); ++i) {
      const bool narrow = i < package::max_user_sizes && (config.narrow >> i & 1) != 0;
      sizes += fmt::format("{}({}, {})", i == 0 ? "" : ", ", narrow ? 32 : 64, expression(o.sizes[i]));
    }
    lines.push_back(sizes + "]");
  }
  for (size_t i = 0; i < o.maps.size(); ++i) {
    const size_t rank = package.buffers[step.arguments[o.maps[i].argument]].shape.size();
    lines.push_back((i == 0 ? "maps=[" : "") + map_of(o.maps[i], rank) + (i + 1 == o.maps.size() ? "]" : ""));
  }
  if (o.window) {
    lines.push_back(
        fmt::format("window=({}, {}, {})", o.window->argument, expression(o.window->bytes), o.window->per_mille));
  }
  if (config.hook >= 0) {
    lines.push_back(
        fmt::format("hook=({}, {}, {}, {})", config.hook, config.hook_first, config.hook_arguments, config.hook_sizes));
  }
  for (size_t i = 2; i + 1 < lines.size(); ++i) lines[i] += ",";
  lines.back() += "))";
  return lines;
}

}  // namespace codetta::emit::host
