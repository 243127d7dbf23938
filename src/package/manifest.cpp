// SPDX-License-Identifier: Apache-2.0
// The manifest: a package as JSON, without its binaries.
#include <nlohmann/json.hpp>

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

Json json_of(const Buffer& buffer) {
  constexpr const char* roles[] = {"argument", "output", "temporary", "constant"};
  Json json{
      {"name", buffer.name}, {"role", roles[static_cast<size_t>(buffer.role)]}, {"dtype", dtype_name(buffer.dtype)}};
  if (buffer.is_scalar) {
    json["scalar"] = true;
  } else {
    json["shape"] = json_of(buffer.shape);
  }
  if (buffer.role == Buffer::Role::Constant) json["bytes"] = buffer.constant.size();
  return json;
}

Json json_of(const CpuGemmConfig& config) {
  return {{"family", name_of(config.family)},
          {"isa", isa_name(config.isa)},
          {"a", dtype_name(config.a_dtype)},
          {"b", dtype_name(config.b_dtype)},
          {"accumulator", dtype_name(config.accumulator)},
          {"mr", config.mr},
          {"nr", config.nr},
          {"tile_rows", config.tile_rows},
          {"tile_cols", config.tile_cols},
          {"kc", config.kc},
          {"mc", config.mc},
          {"nc", config.nc},
          {"k_split", config.k_split},
          {"pack_a", config.pack_a}};
}

Json json_of(const CudaGemmConfig& config) {
  constexpr std::string_view math[] = {"strict", "3xtf32", "tf32", "fp8_fast_accum"};
  return {{"family", name_of(config.family)},
          {"a", dtype_name(config.a_dtype)},
          {"b", dtype_name(config.b_dtype)},
          {"accumulator", dtype_name(config.accumulator)},
          {"math", math[static_cast<size_t>(config.math)]},
          {"a_k_major", config.a_k_major},
          {"b_k_major", config.b_k_major},
          {"tile", {config.tile_m, config.tile_n, config.tile_k}},
          {"stages", config.stages},
          {"cluster", {config.cluster_m, config.cluster_n}},
          {"consumers", config.consumers},
          {"pingpong", config.pingpong},
          {"persistent", config.persistent},
          {"from_registers", config.from_registers},
          {"k_split", config.k_split},
          {"group", config.group},
          {"alignment", config.alignment},
          {"piece", {config.piece_rows, config.piece_cols}},
          {"lanes", config.lanes},
          {"threads", config.threads},
          {"shared_bytes", config.shared_bytes}};
}

Json json_of(const Kernel& kernel) {
  Json json{{"name", kernel.name},
            {"config", std::visit([](const auto& config) { return json_of(config); }, kernel.config)},
            {"epilogue", kernel.epilogue.to_string()},
            {"source_bytes", kernel.source.size()},
            {"binary_bytes", kernel.binary.size()}};
  if (std::holds_alternative<CpuGemmConfig>(kernel.config)) {
    json["symbol"] = kernel.symbol;
    json["gcc_flags"] = kernel.gcc_flags;
    json["clang_flags"] = kernel.clang_flags;
  } else {
    json["entries"] = Json::array();
    for (const CudaEntry& entry : kernel.entries) json["entries"].push_back(entry.symbol);
    json["nvrtc_flags"] = kernel.nvrtc_flags;
  }
  return json;
}

struct StepJson {
  const Package& package;
  Json buffer(uint32_t index) const {
    return index < package.buffers.size() ? Json(package.buffers[index].name) : Json(index);
  }

  Json operator()(const DefineSymbol& step) const {
    return {{"step", "define_symbol"}, {"symbol", step.symbol}, {"buffer", buffer(step.buffer)}, {"dim", step.dim}};
  }
  Json operator()(const Check& step) const {
    if (const auto* equal = std::get_if<EqualGuard>(&step.guard)) {
      return {{"step", "check"},
              {"guard", "equal"},
              {"left", json_of(equal->left)},
              {"right", json_of(equal->right)},
              {"why", equal->why}};
    }
    if (const auto* unit = std::get_if<UnitStrideGuard>(&step.guard)) {
      return {{"step", "check"}, {"guard", "unit_stride"}, {"buffer", buffer(unit->buffer)}};
    }
    const auto& overlap = *std::get_if<NoOverlapGuard>(&step.guard);
    return {{"step", "check"},
            {"guard", "no_overlap"},
            {"output", buffer(overlap.output)},
            {"other", buffer(overlap.other)},
            {"in_place_ok", overlap.in_place_ok}};
  }
  Json operator()(const Allocate& step) const {
    return {{"step", "allocate"}, {"buffer", buffer(step.buffer)}, {"offset", json_of(step.offset)}};
  }
  Json operator()(const Free& step) const { return {{"step", "free"}, {"buffer", buffer(step.buffer)}}; }
  Json operator()(const LaunchKernel& step) const {
    Json arguments = Json::array();
    for (uint32_t argument : step.arguments) arguments.push_back(buffer(argument));
    return {
        {"step", "launch_kernel"},
        {"kernel", step.kernel < package.kernels.size() ? Json(package.kernels[step.kernel].name) : Json(step.kernel)},
        {"a", buffer(step.a)},
        {"b", buffer(step.b)},
        {"a_transposed", step.a_transposed},
        {"b_transposed", step.b_transposed},
        {"batch", json_of(step.batch)},
        {"m", json_of(step.m)},
        {"n", json_of(step.n)},
        {"k", json_of(step.k)},
        {"arguments", std::move(arguments)}};
  }
  Json operator()(const Comment& step) const { return {{"step", "comment"}, {"text", step.text}}; }
  Json operator()(const Return&) const { return {{"step", "return"}}; }
};

}  // namespace

std::string Package::manifest_json() const {
  Json json{{"format", package_format}, {"name", name}, {"target", target.to_string()}, {"build_id", build_id}};
  json["buffers"] = Json::array();
  for (const Buffer& buffer : buffers) json["buffers"].push_back(json_of(buffer));
  json["kernels"] = Json::array();
  for (const Kernel& kernel : kernels) json["kernels"].push_back(json_of(kernel));
  json["steps"] = Json::array();
  for (const Step& step : steps) json["steps"].push_back(std::visit(StepJson{*this}, step));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace codetta::package
