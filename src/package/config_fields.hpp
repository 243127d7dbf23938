// SPDX-License-Identifier: Apache-2.0
// The numbers and flags of a configuration by name, in the order of the file form: what is written to files, listed in
// the manifest and shown to users.
#pragma once

#include <array>
#include <string_view>

#include "package/kernel_config.hpp"

namespace codetta::package {

template <class Config>
struct ConfigNumber {
  std::string_view name;
  int32_t Config::*member;
  int32_t least, most;  // what a file may say
};
template <class Config>
struct ConfigFlag {
  std::string_view name;
  bool Config::*member;
};

template <class Config>
struct ConfigFields;

template <>
struct ConfigFields<CpuGemmConfig> {
  using C = CpuGemmConfig;
  static constexpr std::array numbers{ConfigNumber<C>{"mr", &C::mr, 1, max_block_rows},
                                      ConfigNumber<C>{"nr", &C::nr, 1, max_block_cols},
                                      ConfigNumber<C>{"tile_rows", &C::tile_rows, 1, max_tile_rows},
                                      ConfigNumber<C>{"tile_cols", &C::tile_cols, 1, max_tile_cols},
                                      ConfigNumber<C>{"kc", &C::kc, 1, max_cache_block},
                                      ConfigNumber<C>{"mc", &C::mc, 1, max_cache_block},
                                      ConfigNumber<C>{"nc", &C::nc, 1, max_cache_block},
                                      ConfigNumber<C>{"k_split", &C::k_split, 1, max_k_split}};
  static constexpr std::array flags{ConfigFlag<C>{"pack_a", &C::pack_a}};
};

template <>
struct ConfigFields<GpuGemmConfig> {
  using C = GpuGemmConfig;
  static constexpr std::array numbers{ConfigNumber<C>{"tile_m", &C::tile_m, 1, max_gpu_tile},
                                      ConfigNumber<C>{"tile_n", &C::tile_n, 1, max_gpu_tile},
                                      ConfigNumber<C>{"tile_k", &C::tile_k, 1, max_gpu_tile},
                                      ConfigNumber<C>{"stages", &C::stages, 1, 64},
                                      ConfigNumber<C>{"cluster_m", &C::cluster_m, 1, 16},
                                      ConfigNumber<C>{"cluster_n", &C::cluster_n, 1, 16},
                                      ConfigNumber<C>{"consumers", &C::consumers, 1, 32},
                                      ConfigNumber<C>{"spread_a", &C::spread_a, 1, max_spread},
                                      ConfigNumber<C>{"a_rows", &C::a_rows, 0, max_gpu_tile},
                                      ConfigNumber<C>{"k_split", &C::k_split, 1, max_k_split},
                                      ConfigNumber<C>{"group", &C::group, 1, max_gpu_tile},
                                      ConfigNumber<C>{"alignment", &C::alignment, 1, 256},
                                      ConfigNumber<C>{"piece_rows", &C::piece_rows, 1, max_gpu_tile},
                                      ConfigNumber<C>{"piece_cols", &C::piece_cols, 1, max_gpu_tile},
                                      ConfigNumber<C>{"lanes", &C::lanes, 1, 16},
                                      ConfigNumber<C>{"threads", &C::threads, 1, max_gpu_threads},
                                      ConfigNumber<C>{"shared_bytes", &C::shared_bytes, 0, max_gpu_shared}};
  static constexpr std::array flags{ConfigFlag<C>{"a_k_major", &C::a_k_major},
                                    ConfigFlag<C>{"b_k_major", &C::b_k_major},
                                    ConfigFlag<C>{"pingpong", &C::pingpong},
                                    ConfigFlag<C>{"persistent", &C::persistent},
                                    ConfigFlag<C>{"from_registers", &C::from_registers},
                                    ConfigFlag<C>{"copied", &C::copied},
                                    ConfigFlag<C>{"stream_k", &C::stream_k},
                                    ConfigFlag<C>{"combines", &C::combines},
                                    ConfigFlag<C>{"whole_rows", &C::whole_rows},
                                    ConfigFlag<C>{"pack_a", &C::pack_a},
                                    ConfigFlag<C>{"pack_b", &C::pack_b},
                                    ConfigFlag<C>{"even", &C::even}};
};

template <>
struct ConfigFields<CpuMapConfig> {
  using C = CpuMapConfig;
  static constexpr std::array numbers{ConfigNumber<C>{"tile_rows", &C::tile_rows, 1, max_map_rows},
                                      ConfigNumber<C>{"tile_cols", &C::tile_cols, 1, max_map_cols}};
  static constexpr std::array<ConfigFlag<C>, 0> flags{};
};

template <>
struct ConfigFields<GpuMapConfig> {
  using C = GpuMapConfig;
  static constexpr std::array numbers{ConfigNumber<C>{"threads", &C::threads, 1, max_gpu_threads},
                                      ConfigNumber<C>{"piece_rows", &C::piece_rows, 1, max_map_rows},
                                      ConfigNumber<C>{"piece_cols", &C::piece_cols, 1, max_map_cols},
                                      ConfigNumber<C>{"lanes", &C::lanes, 1, 16},
                                      ConfigNumber<C>{"row_cols", &C::row_cols, 0, max_map_cols},
                                      ConfigNumber<C>{"kept_cols", &C::kept_cols, 0, 1024},
                                      ConfigNumber<C>{"row_blocks", &C::row_blocks, 1, 32}};
  static constexpr std::array flags{ConfigFlag<C>{"panels", &C::panels}, ConfigFlag<C>{"fixed_cols", &C::fixed_cols}};
};

template <>
struct ConfigFields<CpuUserConfig> {
  static constexpr std::array<ConfigNumber<CpuUserConfig>, 0> numbers{};
  static constexpr std::array<ConfigFlag<CpuUserConfig>, 0> flags{};
};

template <>
struct ConfigFields<GpuUserConfig> {
  using C = GpuUserConfig;
  static constexpr std::array numbers{ConfigNumber<C>{"choice", &C::choice, 0, 4095},
                                      ConfigNumber<C>{"narrow", &C::narrow, 0, INT32_MAX},
                                      ConfigNumber<C>{"hook", &C::hook, -1, 4095},
                                      ConfigNumber<C>{"hook_first", &C::hook_first, 0, 4095},
                                      ConfigNumber<C>{"hook_arguments", &C::hook_arguments, 0, 4095},
                                      ConfigNumber<C>{"hook_sizes", &C::hook_sizes, 0, 4095}};
  static constexpr std::array<ConfigFlag<C>, 0> flags{};
};

template <>
struct ConfigFields<CudaVendorConfig> {
  using C = CudaVendorConfig;
  static constexpr std::array numbers{ConfigNumber<C>{"rank", &C::rank, 0, max_vendor_proposals - 1},
                                      ConfigNumber<C>{"workspace", &C::workspace, 0, max_vendor_workspace},
                                      ConfigNumber<C>{"d", &C::d, 0, max_vendor_operand},
                                      ConfigNumber<C>{"c", &C::c, -1, max_vendor_operand},
                                      ConfigNumber<C>{"bias", &C::bias, -1, max_vendor_operand},
                                      ConfigNumber<C>{"aux", &C::aux, -1, max_vendor_operand},
                                      ConfigNumber<C>{"scale_a", &C::scale_a, -1, max_vendor_operand},
                                      ConfigNumber<C>{"scale_b", &C::scale_b, -1, max_vendor_operand},
                                      ConfigNumber<C>{"alpha_argument", &C::alpha_argument, -1, max_vendor_operand},
                                      ConfigNumber<C>{"beta_argument", &C::beta_argument, -1, max_vendor_operand}};
  static constexpr std::array<ConfigFlag<C>, 0> flags{};
};

// number(name, value) for every number, then flag(name, value) for every flag.
template <class Config, class Number, class Flag>
void for_each_field(const Config& config, Number&& number, Flag&& flag) {
  for (const auto& field : ConfigFields<Config>::numbers) number(field.name, config.*field.member);
  for (const auto& field : ConfigFields<Config>::flags) flag(field.name, config.*field.member);
}

}  // namespace codetta::package
