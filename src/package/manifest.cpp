// SPDX-License-Identifier: Apache-2.0
// The manifest: a package as JSON, without its binaries.
#include <nlohmann/json.hpp>

#include "package/config_fields.hpp"
#include "package/package.hpp"

namespace codetta::package {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<Dim>& shape) {
  Json sizes = Json::array();
  for (const Dim& dim : shape) {
    if (const auto size = dim.as_constant()) {
      sizes.push_back(*size);
    } else {
      sizes.push_back(dim.to_string());
    }
  }
  return sizes;
}

Json json_of(const Dim& dim) { return json_of(std::vector<Dim>{dim})[0]; }
Json json_of(const FactorView& view) {
  Json json = Json::array();
  for (const FactorDim& dim : view)
    json.push_back({{"dim", dim.dim}, {"scale", json_of(dim.scale)}, {"size", json_of(dim.size)}});
  return json;
}

Json json_of(const Buffer& buffer) {
  constexpr const char* roles[] = {"argument", "output", "temporary", "constant"};
  Json json{
      {"name", buffer.name}, {"role", roles[static_cast<size_t>(buffer.role)]}, {"dtype", dtype_name(buffer.dtype)}};
  if (buffer.is_scalar) {
    json["scalar"] = true;
  } else {
    json["shape"] = json_of(buffer.shape);
  }
  if (buffer.role == Buffer::Role::Constant) {
    if (buffer.external.empty()) {
      json["bytes"] = buffer.constant.size();
    } else {
      json["external"] = buffer.external;
    }
  }
  if (!buffer.strides.empty()) json["strides"] = json_of(buffer.strides);
  if (!(buffer.offset == Dim())) json["offset"] = json_of(buffer.offset);
  if (!buffer.begin.empty()) json["begin"] = json_of(buffer.begin);
  if (buffer.device != 0) json["device"] = buffer.device;
  if (buffer.donated) json["donated"] = true;
  if (!buffer.filled.empty()) json["filled"] = json_of(buffer.filled);
  return json;
}

Json heading(const CpuGemmConfig& config) {
  return {{"family", name_of(config.family)},
          {"isa", isa_name(config.isa)},
          {"a", dtype_name(config.a_dtype)},
          {"b", dtype_name(config.b_dtype)},
          {"accumulator", dtype_name(config.accumulator)}};
}
Json heading(const GpuGemmConfig& config) {
  return {{"family", name_of(config.family)},
          {"a", dtype_name(config.a_dtype)},
          {"b", dtype_name(config.b_dtype)},
          {"accumulator", dtype_name(config.accumulator)},
          {"math", math_mode_name(config.math)}};
}
Json heading(const CpuMapConfig& config) { return {{"family", "map"}, {"isa", isa_name(config.isa)}}; }
Json heading(const GpuMapConfig&) { return {{"family", "map"}}; }
Json heading(const CpuUserConfig&) { return {{"family", "user"}}; }
Json heading(const GpuUserConfig&) { return {{"family", "user"}}; }
Json heading(const CudaVendorConfig& config) {
  return {{"family", name_of(GpuFamily::Vendor)},
          {"a", dtype_name(config.a_dtype)},
          {"b", dtype_name(config.b_dtype)},
          {"accumulator", dtype_name(config.accumulator)},
          {"math", math_mode_name(config.math)},
          {"activation", name_of(config.activation)},
          {"alpha", config.alpha},
          {"beta", config.beta}};
}

template <class Config>
Json json_of_config(const Config& config) {
  Json json = heading(config);
  const auto add = [&](std::string_view name, auto value) { json[std::string(name)] = value; };
  for_each_field(config, add, add);
  return json;
}

Json json_of(const Kernel& kernel) {
  Json json{{"name", kernel.name},
            {"config", std::visit([](const auto& config) { return json_of_config(config); }, kernel.config)},
            {"epilogue", kernel.epilogue.to_string()},
            {"source_bytes", kernel.source.size()},
            {"binary_bytes", kernel.binary.size()}};
  if (!is_gpu(kernel.config)) {
    json["symbol"] = kernel.symbol;
    json["gcc_flags"] = kernel.gcc_flags;
    json["clang_flags"] = kernel.clang_flags;
  } else {
    json["entries"] = Json::array();
    for (const GpuEntry& entry : kernel.entries) json["entries"].push_back(entry.symbol);
    json["nvrtc_flags"] = kernel.nvrtc_flags;
  }
  return json;
}

struct StepJson {
  const Package& package;
  Json buffer(uint32_t index) const {
    return index < package.buffers.size() ? Json(package.buffers[index].name) : Json(index);
  }
  Json buffers(const std::vector<uint32_t>& indices) const {
    Json names = Json::array();
    for (const uint32_t index : indices) names.push_back(buffer(index));
    return names;
  }
  Json kernel(uint32_t index) const {
    return index < package.kernels.size() ? Json(package.kernels[index].name) : Json(index);
  }

  Json operator()(const EqualGuard& g) const {
    return {{"guard", "equal"}, {"left", json_of(g.left)}, {"right", json_of(g.right)}, {"why", g.why}};
  }
  Json operator()(const UnitStrideGuard& g) const { return {{"guard", "unit_stride"}, {"buffer", buffer(g.buffer)}}; }
  Json operator()(const NoOverlapGuard& g) const {
    return {{"guard", "no_overlap"},
            {"output", buffer(g.output)},
            {"other", buffer(g.other)},
            {"in_place_ok", g.in_place_ok}};
  }
  Json operator()(const SizeGuard& g) const {
    return {{"guard", "size"}, {"buffer", buffer(g.buffer)}, {"dim", g.dim}, {"size", json_of(g.size)}};
  }
  Json operator()(const StrideGuard& g) const {
    return {{"guard", "stride"}, {"buffer", buffer(g.buffer)}, {"dim", g.dim}, {"stride", json_of(g.stride)}};
  }
  Json operator()(const AlignmentGuard& g) const {
    return {{"guard", "alignment"}, {"buffer", buffer(g.buffer)}, {"bytes", g.bytes}};
  }
  Json operator()(const DivisibleGuard& g) const {
    return {{"guard", "divisible"}, {"value", json_of(g.value)}, {"divisor", json_of(g.divisor)}, {"why", g.why}};
  }
  Json operator()(const RangeGuard& g) const {
    return {{"guard", "range"},
            {"value", json_of(g.value)},
            {"least", json_of(g.least)},
            {"most", json_of(g.most)},
            {"why", g.why}};
  }
  Json operator()(const NanGuard& g) const {
    return {{"guard", "nan"}, {"buffer", buffer(g.buffer)}, {"infinity", g.infinity}, {"why", g.why}};
  }
  Json operator()(const IndexGuard& g) const {
    return {{"guard", "index"}, {"buffer", buffer(g.buffer)}, {"size", json_of(g.size)}};
  }

  Json operator()(const DefineSymbol& s) const {
    constexpr const char* from[] = {"size", "stride", "value", "output_size", "output_stride", "expression"};
    Json json{{"symbol", s.symbol}, {"from", from[static_cast<size_t>(s.from)]}};
    using From = DefineSymbol::From;
    if (s.from == From::OutputSize || s.from == From::OutputStride) {
      json["result"] = s.buffer;
      json["output"] = s.output;
    } else if (s.from == From::Expression) {
      json["value"] = json_of(s.value);
    } else {
      json["buffer"] = buffer(s.buffer);
    }
    if (s.from != From::Value && s.from != From::Expression) json["dim"] = s.dim;
    if (s.from == From::Size && !(s.value == Dim())) json["less"] = json_of(s.value);
    if (!(s.divisor == Dim::constant(1))) json["divisor"] = json_of(s.divisor);
    return json;
  }
  Json operator()(const Check& s) const { return std::visit(*this, s.guard); }
  Json operator()(const Allocate& s) const { return {{"buffer", buffer(s.buffer)}}; }
  Json operator()(const AllocateFromPool& s) const {
    return {{"buffer", buffer(s.buffer)}, {"pool", s.pool}, {"offset", json_of(s.offset)}};
  }
  Json operator()(const Free& s) const { return {{"buffer", buffer(s.buffer)}}; }
  Json operator()(const Reuse& s) const { return {{"from", buffer(s.from)}, {"buffer", buffer(s.buffer)}}; }
  Json operator()(const Reinterpret& s) const { return {{"source", buffer(s.source)}, {"buffer", buffer(s.buffer)}}; }
  Json operator()(const LoadConstant& s) const { return {{"buffer", buffer(s.buffer)}}; }
  Json operator()(const Copy& s) const { return {{"source", buffer(s.source)}, {"target", buffer(s.target)}}; }
  Json operator()(const Fill& s) const {
    constexpr const char* modes[] = {"none", "per_call", "once"};
    return {{"buffer", buffer(s.buffer)}, {"mode", modes[static_cast<size_t>(s.mode)]}, {"bits", s.bits}};
  }
  Json operator()(const DefineKernel& s) const { return {{"kernel", kernel(s.kernel)}}; }
  Json operator()(const LaunchKernel& s) const {
    Json json{{"kernel", kernel(s.kernel)}};
    if (s.product) {
      json["a"] = buffer(s.product->a);
      json["b"] = buffer(s.product->b);
      json["a_transposed"] = s.product->a_transposed;
      json["b_transposed"] = s.product->b_transposed;
      if (!s.product->a_view.empty()) json["a_view"] = json_of(s.product->a_view);
      if (!s.product->b_view.empty()) json["b_view"] = json_of(s.product->b_view);
      if (!s.product->more_b.empty()) json["more_b"] = buffers(s.product->more_b);
      for (const Prologue& made : s.product->b_made)
        json["b_made"].push_back({{"kernel", kernel(made.kernel)}, {"arguments", buffers(made.arguments)}});
    }
    json["batch"] = json_of(s.batch);
    json["m"] = json_of(s.m);
    json["n"] = json_of(s.n);
    if (s.product) json["k"] = json_of(s.product->k);
    json["arguments"] = buffers(s.arguments);
    const LaunchOptions& o = s.options;
    if (o == LaunchOptions{}) return json;
    json["grid"] = json_of(std::vector<Dim>(o.grid.begin(), o.grid.end()));
    json["block"] = json_of(std::vector<Dim>(o.block.begin(), o.block.end()));
    json["cluster"] = o.cluster;
    json["cooperative"] = o.cooperative;
    json["programmatic"] = o.programmatic;
    json["shared_bytes"] = json_of(o.shared_bytes);
    json["sizes"] = json_of(o.sizes);
    json["maps"] = Json::array();
    for (const TensorMap& map : o.maps) {
      json["maps"].push_back({{"kind", map.kind == TensorMap::Kind::Tiled ? "tiled" : "im2col"},
                              {"argument", map.argument},
                              {"box", map.box},
                              {"element_strides", map.element_strides},
                              {"lower_corner", map.lower_corner},
                              {"upper_corner", map.upper_corner},
                              {"channels", map.channels},
                              {"pixels", map.pixels},
                              {"swizzle", static_cast<int>(map.swizzle)},
                              {"interleave", static_cast<int>(map.interleave)},
                              {"promotion", static_cast<int>(map.promotion)},
                              {"nan_outside", map.nan_outside}});
    }
    if (o.window) {
      json["l2_window"] = {
          {"argument", o.window->argument}, {"bytes", json_of(o.window->bytes)}, {"per_mille", o.window->per_mille}};
    }
    return json;
  }
  Json operator()(const CallExtern& s) const {
    Json json{{"name", s.name}, {"inputs", buffers(s.inputs)}};
    if (s.form == CallExtern::Form::Out) {
      json["outputs"] = buffers(s.outputs);
    } else {
      json["result"] = s.result;
      json["output_count"] = s.output_count;
    }
    return json;
  }
  Json operator()(const SelectOutput& s) const {
    return {{"result", s.result}, {"output", s.output}, {"buffer", buffer(s.buffer)}};
  }
  Json operator()(const IndexPut& s) const {
    return {{"target", buffer(s.target)},
            {"indices", buffers(s.indices)},
            {"values", buffer(s.values)},
            {"accumulate", s.accumulate}};
  }
  Json operator()(const Scatter& s) const {
    constexpr const char* reduce[] = {"none", "sum", "product", "min", "max"};
    return {{"target", buffer(s.target)},
            {"index", buffer(s.index)},
            {"source", buffer(s.source)},
            {"dim", s.dim},
            {"reduce", reduce[static_cast<size_t>(s.reduce)]}};
  }
  Json operator()(const EnterDevice& s) const { return {{"device", s.device}}; }
  Json operator()(const ExitDevice&) const { return Json::object(); }
  Json operator()(const EnterStream& s) const { return {{"stream", s.stream}}; }
  Json operator()(const ExitStream&) const { return Json::object(); }
  Json operator()(const RecordEvent& s) const { return {{"event", s.event}}; }
  Json operator()(const WaitEvent& s) const { return {{"event", s.event}}; }
  Json operator()(const EnterSubgraph& s) const { return {{"name", s.name}, {"results", buffers(s.results)}}; }
  Json operator()(const ExitSubgraph&) const { return Json::object(); }
  Json operator()(const If& s) const {
    return {{"predicate", buffer(s.predicate)}, {"then", s.then_list}, {"else", s.else_list}};
  }
  Json operator()(const While& s) const {
    return {{"condition", s.condition}, {"predicate", buffer(s.predicate)}, {"body", s.body}, {"limit", s.limit}};
  }
  Json operator()(const Comment& s) const { return {{"text", s.text}}; }
  Json operator()(const Return&) const { return Json::object(); }
};

Json json_of(const Package& package, const StepList& steps) {
  Json list = Json::array();
  for (const Step& step : steps) {
    Json json{{"step", name_of(step)}};
    json.update(std::visit(StepJson{package}, step));
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string Package::manifest_json() const {
  Json json{{"format", package_format}, {"name", name}, {"target", target.to_string()}, {"build_id", build_id}};
  json["buffers"] = Json::array();
  for (const Buffer& buffer : buffers) json["buffers"].push_back(json_of(buffer));
  json["kernels"] = Json::array();
  for (const Kernel& kernel : kernels) json["kernels"].push_back(json_of(kernel));
  json["pools"] = Json::array();
  for (const Pool& pool : pools)
    json["pools"].push_back({{"device", pool.device}, {"bytes", json_of(pool.bytes)}, {"alignment", pool.alignment}});
  json["devices"] = device_count;
  json["streams"] = stream_count;
  json["steps"] = json_of(*this, steps);
  json["step_lists"] = Json::array();
  for (const StepList& list : step_lists) json["step_lists"].push_back(json_of(*this, list));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace codetta::package
