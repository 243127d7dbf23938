// SPDX-License-Identifier: Apache-2.0
// What is listed of a family's configurations, all of them, and which are near each other.
#include <gtest/gtest.h>

#include <set>

#include "package/kernel_config.hpp"
#include "support/plain_store.hpp"
#include "unit/plan/gpu_discovery.hpp"

namespace {

using namespace codetta;
using package::GpuGemmConfig;
using plan::Breadth;
using plan::Discovery;

Discovery found(const plan::GemmShape& shape, const Breadth& breadth, const Target& target) {
  return plan::discover(test::plain_store(shape.accumulator, DType::bf16), shape, target, {}, breadth);
}
Target target_of(Backend backend, const std::string& arch) { return {backend, CpuIsa::generic, arch}; }
std::vector<std::string> names_of(const Discovery& discovery) {
  std::vector<std::string> names;
  for (const plan::Candidate& candidate : discovery.candidates) names.push_back(candidate.name);
  return names;
}
bool ranks_out(const Discovery& discovery) {
  return std::any_of(discovery.rejections.begin(), discovery.rejections.end(),
                     [](const plan::Rejection& r) { return r.code == static_cast<uint16_t>(diag::Code::ranked_out); });
}

TEST(Breadth, AllHasWhatIsListedAndMoreUnderNamesOfTheirOwn) {
  for (const Target& target : {target_of(Backend::cuda, "sm_80"), target_of(Backend::cuda, "sm_90a"),
                               target_of(Backend::cuda, "sm_100a"), target_of(Backend::hip, "gfx942")}) {
    for (const int64_t rows : {16, 512, 4096}) {
      const plan::GemmShape shape = test::gpu_shape(rows, 4096, 4096, DType::bf16);
      const Discovery listed = found(shape, {}, target), all = found(shape, {.all = true}, target);
      const std::vector<std::string> every = names_of(all);
      const std::set<std::string> apart(every.begin(), every.end());
      EXPECT_EQ(apart.size(), every.size()) << target.to_string() << " " << rows;
      EXPECT_FALSE(ranks_out(all)) << target.to_string() << " " << rows;
      if (ranks_out(listed)) {
        EXPECT_GT(every.size(), listed.candidates.size()) << target.to_string();
      }
      // What is listed is what it was, and in that order.
      std::vector<std::string> kept;
      const std::vector<std::string> of_list = names_of(listed);
      for (const std::string& name : every) {
        if (std::find(of_list.begin(), of_list.end(), name) != of_list.end()) kept.push_back(name);
      }
      EXPECT_EQ(kept, of_list) << target.to_string() << " " << rows;
      for (const std::string& name : of_list) EXPECT_EQ(name.find("_g4_"), std::string::npos) << name;
    }
  }
}

TEST(Breadth, ByName) {
  const Target target = target_of(Backend::cuda, "sm_90a");
  const plan::GemmShape shape = test::gpu_shape(8192, 8192, 8192, DType::bf16);
  const Discovery listed = found(shape, {}, target);
  std::set<std::string> missing;
  for (const std::string& name : names_of(found(shape, {.all = true}, target))) missing.insert(name);
  for (const std::string& name : names_of(listed)) missing.erase(name);
  const std::string raster = *std::find_if(missing.begin(), missing.end(), [](const std::string& name) {
    return name.find("_g4_sm_90a") != std::string::npos;
  });
  const std::string other = *std::find_if(missing.begin(), missing.end(), [](const std::string& name) {
    return name.find("_g") == std::string::npos && name.find("_c1x2_") != std::string::npos;
  });
  const Discovery both = found(shape, {.also = {raster, "cuda_nobody", other}}, target);
  EXPECT_EQ(both.candidates.size(), listed.candidates.size() + 2);
  const auto one = [&](const std::string& name) -> const plan::Candidate& {
    return *std::find_if(both.candidates.begin(), both.candidates.end(),
                         [&](const plan::Candidate& c) { return c.name == name; });
  };
  EXPECT_EQ(package::gpu(one(raster).config).group, 4);
  EXPECT_EQ(package::gpu(one(other).config).cluster_n, 2);
  EXPECT_TRUE(ranks_out(both)) << "others are still left out";
  // Tiles of one group are in one order only.
  for (const std::string& name :
       names_of(found(test::gpu_shape(512, 8192, 8192, DType::bf16), {.all = true}, target))) {
    EXPECT_EQ(name.find("_g32_"), std::string::npos) << name;
    EXPECT_TRUE(name.find("_sm90_256x") == std::string::npos || name.find("_g") == std::string::npos) << name;
  }
}

TEST(Breadth, StepsBetweenConfigurations) {
  GpuGemmConfig base;
  base.family = package::GpuFamily::Sm90;
  base.tile_m = 128, base.tile_n = 128, base.tile_k = 64, base.consumers = 2, base.pingpong = true;
  const auto steps = [&](const std::function<void(GpuGemmConfig&)>& change) {
    GpuGemmConfig other = base;
    change(other);
    EXPECT_EQ(plan::steps_between(base, other), plan::steps_between(other, base));
    EXPECT_EQ(plan::respects_between(base, other), plan::respects_between(other, base));
    return plan::steps_between(base, other);
  };
  EXPECT_EQ(steps([](GpuGemmConfig&) {}), 0);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.cluster_m = 2; }), 1);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.copied = true, c.stages = 3; }), 1) << "stages follow from it";
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.stages = 3; }), 1);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.group = 4, c.stream_k = true; }), 2);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.pingpong = false; }), 1);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.pack_a = true; }), 2);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.tile_n = 144; }), 1);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.tile_n = 160; }), 2);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.tile_m = 64, c.tile_n = 256; }), 8);
  EXPECT_EQ(steps([](GpuGemmConfig& c) { c.family = package::GpuFamily::Sm80; }), std::nullopt);
  EXPECT_EQ(plan::steps_between(base, package::CudaVendorConfig{}), std::nullopt);
  GpuGemmConfig wider = base, clustered = base;
  wider.tile_n = 144;
  clustered.cluster_n = 2;
  EXPECT_TRUE(plan::same_tile(base, clustered));
  EXPECT_FALSE(plan::same_tile(base, wider));
  EXPECT_FALSE(plan::same_tile(base, package::CudaVendorConfig{}));
  GpuGemmConfig both = wider, cooperative = wider;
  both.cluster_n = 2;
  cooperative.pingpong = false;
  const uint32_t width = plan::respects_between(base, wider), cluster = plan::respects_between(base, clustered);
  EXPECT_NE(width, 0U);
  EXPECT_NE(cluster, 0U);
  EXPECT_EQ(width & cluster, 0U);
  EXPECT_EQ(plan::respects_between(base, both), width | cluster);
  EXPECT_EQ(plan::respects_between(base, base), 0U);
  EXPECT_EQ(plan::respects_between(base, package::CudaVendorConfig{}), 0U);
  EXPECT_TRUE(plan::same_schedule(base, both));
  EXPECT_FALSE(plan::same_schedule(base, cooperative));
  EXPECT_FALSE(plan::same_schedule(base, package::CudaVendorConfig{}));
}

}  // namespace
