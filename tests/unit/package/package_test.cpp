// SPDX-License-Identifier: Apache-2.0
// The file form of packages: round trip, damage, and references that lead nowhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include <nlohmann/json.hpp>

#include "base/digest.hpp"
#include "types/dtype.hpp"
#include "unit/package/samples.hpp"

namespace {

using namespace codetta;
using package::CpuGemmConfig;
using package::Package;

std::string reason_of(const Result<Package>& package) {
  return package ? "accepted" : package.error().diagnostics()[0].reason;
}

TEST(Package, RoundTrip) {
  const Package package = test::sample_package();
  const std::string bytes = package.encode();
  const auto decoded = Package::decode(bytes);
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_EQ(*decoded, package);
  EXPECT_EQ(decoded->encode(), bytes);
}

Package cuda_sample() {
  Package package = test::sample_package();
  package.target = {Backend::cuda, CpuIsa::generic, "sm_90a"};
  package::Kernel& kernel = package.kernels[0];
  const auto cpu = std::get<CpuGemmConfig>(kernel.config);
  package::GpuGemmConfig config;
  config.family = package::GpuFamily::Sm90;
  config.a_dtype = cpu.a_dtype;
  config.b_dtype = cpu.b_dtype;
  config.accumulator = cpu.accumulator;
  config.pingpong = true;
  config.stages = 5;
  kernel.config = config;
  kernel.nvrtc_flags = {"--gpu-architecture=sm_90a"};
  kernel.entries = {{package::GpuEntry::Kind::Gemm, 0, "codetta_gemm", 384, 200000, 1},
                    {package::GpuEntry::Kind::Combine, 0, "codetta_combine_0", 256, 0, 8}};
  kernel.maps = {{package::CudaTensorMap::Source::A, 0, 64, 128, 128}};
  return package;
}

TEST(Package, CudaRoundTrip) {
  const Package package = cuda_sample();
  const auto decoded = Package::decode(package.encode());
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_EQ(*decoded, package);
  const auto json = nlohmann::json::parse(package.manifest_json());
  EXPECT_EQ(json["kernels"][0]["config"]["family"], "sm90");
  EXPECT_EQ(json["kernels"][0]["entries"][1], "codetta_combine_0");
}

package::GpuGemmConfig& gpu_of(Package& package) {
  return *std::get_if<package::GpuGemmConfig>(&package.kernels[0].config);
}

// Two products of one A, whose factors a map makes out of bytes.
Package made_factors() {
  Package package = test::sample_package();
  package.kernels[0].epilogue.split.products = 2;
  package.buffers[1].shape = {package.buffers[1].shape[1], package.buffers[1].shape[0]};
  package::Kernel maker;
  maker.name = "codetta_maker_01234567";
  maker.config = package::CpuMapConfig{};
  package::EpilogueProgram& program = maker.epilogue;
  const auto k = types::Dim::symbol("k"), n = types::Dim::symbol("n"), one = types::Dim::constant(1);
  program.arguments = {{"B", DType::f32, false, false, {n, k}}, {"made", DType::f32, false, true, {n, k}}};
  package::Operand load;
  load.terms = {{package::Axis::Row, 1, 0, 1, one}, {package::Axis::Col, 1, 0, 0, one}};
  package::Operand store = load;
  store.argument = 1;
  store.is_store = true;
  program.operands = {load, store};
  package::Inst inst;
  inst.kind = package::Inst::Kind::Load;
  package::Phase phase;
  phase.reads_accumulator = false;
  phase.insts = {inst};
  phase.stores = {{1, 0}};
  program.phases = {phase};
  package.kernels.push_back(std::move(maker));
  for (package::Step& step : package.steps) {
    auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    launch->product->more_b = {1};
    launch->product->b_made = {{1, {1}}, {1, {1}}};
    launch->n = launch->n * types::Dim::constant(2);
  }
  return package;
}

TEST(Package, FactorsAsTheirProductSeesThem) {
  Package package = test::sample_package();
  const types::Dim one = types::Dim::constant(1), m = types::Dim::symbol("m"), k = types::Dim::symbol("k");
  const auto change = [](Package& p, const std::function<void(package::Product&)>& f) {
    for (package::Step& step : p.steps) {
      if (auto* launch = std::get_if<package::LaunchKernel>(&step)) f(*launch->product);
    }
  };
  change(package, [&](package::Product& p) {
    p.a_view = {{1, types::Dim::constant(0), types::Dim::constant(3)}, {1, one, m}, {0, one, k}};
  });
  ASSERT_EQ(find_defect(package).value_or("none"), "none");
  const auto decoded = Package::decode(package.encode());
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_EQ(*decoded, package);
  EXPECT_NE(package::list_steps(package).find("A as [3 of dim -2 by 0, m of dim -2, k of dim -1]"), std::string::npos)
      << package::list_steps(package);
  EXPECT_NE(package.manifest_json().find("\"a_view\""), std::string::npos);
  const auto wrong = [&](const std::function<void(package::Product&)>& f) {
    Package changed = package;
    change(changed, f);
    const std::string defect = find_defect(changed).value_or("none");
    return defect.substr(defect.find(": ") + 2);
  };
  EXPECT_EQ(wrong([](auto& p) { p.a_view[1].dim = 2; }), "buffer 0 (A) has no dim 2 from the last");
  EXPECT_EQ(wrong([](auto& p) { p.a_view.resize(1); }), "buffer 0 (A) is no factor of the product");
  EXPECT_EQ(wrong([](auto& p) { p.a_view.resize(5); }), "buffer 0 (A) is no factor of the product");
  EXPECT_EQ(wrong([](auto& p) { p.a_transposed = true; }), "buffer 0 (A) is no factor of the product");
  EXPECT_EQ(wrong([](auto& p) { p.a_view[0].size = types::Dim::symbol("z"); }), "symbol z is not defined yet");
}

TEST(Package, ProductsOfOneFactorAndWhatMakesFactors) {
  const Package package = made_factors();
  ASSERT_EQ(find_defect(package).value_or("none"), "none");
  const auto decoded = Package::decode(package.encode());
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_EQ(*decoded, package);
  const std::string listing = package::list_steps(package);
  EXPECT_NE(listing.find("@ [codetta_maker_01234567(B) transposed, codetta_maker_01234567(B) transposed]"),
            std::string::npos)
      << listing;
  const auto json = nlohmann::json::parse(package.manifest_json());
  EXPECT_NE(json.dump().find("\"b_made\""), std::string::npos);
  const auto wrong = [&](const std::function<void(Package&, package::Product&)>& change) {
    Package changed = made_factors();
    for (package::Step& step : changed.steps) {
      if (auto* launch = std::get_if<package::LaunchKernel>(&step)) change(changed, *launch->product);
    }
    const std::string defect = find_defect(changed).value_or("none");
    return defect.substr(defect.find(": ") + 2);
  };
  EXPECT_EQ(wrong([](Package&, auto& p) { p.more_b.clear(); }), "1 products, and the kernel computes 2");
  EXPECT_EQ(wrong([](Package&, auto& p) { p.b_made.pop_back(); }), "1 prologues of 2 products");
  EXPECT_EQ(wrong([](Package&, auto& p) { p.b_made[1].kernel = 7; }), "there is no kernel 7");
  EXPECT_EQ(wrong([](Package&, auto& p) { p.b_made[1].kernel = 0; }), "codetta_sample_01234567 makes no factor");
  EXPECT_EQ(wrong([](Package&, auto& p) { p.b_made[0].arguments = {}; }), "0 arguments are given and 1 are wanted");
  EXPECT_EQ(wrong([](Package&, auto& p) { p.b = 0; }), "buffer 0 (A) is not read by what makes the factor");
  EXPECT_EQ(wrong([](Package& all, auto&) { all.kernels[1].epilogue.operands[1].unit_stride = false; }),
            "codetta_maker_01234567 makes a factor that is not in rows");
}

// What kernels of GPUs have inside has to be what the launch says.
TEST(Package, FactorsInsideOfKernels) {
  const auto base = [](bool makes_b) {
    Package package = cuda_sample();
    auto& config = std::get<package::GpuGemmConfig>(package.kernels[0].config);
    config.family = package::GpuFamily::Sm80;
    package::EpilogueProgram& program = package.kernels[0].epilogue;
    program.split.products = 2;
    package.buffers[1].shape = {package.buffers[1].shape[1], package.buffers[1].shape[0]};
    const auto one = types::Dim::constant(1);
    const auto argument = static_cast<uint32_t>(program.arguments.size());
    program.arguments.push_back({"B", package.buffers[1].dtype, false, false, package.buffers[1].shape});
    program.operands.push_back({argument,
                                package.buffers[1].dtype,
                                package::Access::Full,
                                false,
                                {{package::Axis::Row, 1, 0, 1, one}, {package::Axis::Col, 1, 0, 0, one}},
                                {},
                                false});
    const auto operand = static_cast<uint32_t>(program.operands.size() - 1);
    package::Inst load;
    load.kind = package::Inst::Kind::Load;
    load.index = operand;
    load.type = load.aux = types::compute_dtype(package.buffers[1].dtype);
    for (const uint32_t product : {0u, 1u}) {
      if (makes_b)
        program.factors.push_back({package::FactorProgram::Which::B, product, config.b_dtype, false, {load}, 0});
    }
    if (!makes_b) program.more_b = {operand};
    for (package::Step& step : package.steps) {
      auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr) continue;
      launch->product->more_b = {1};
      launch->arguments.push_back(1);
      launch->n = launch->n * types::Dim::constant(2);
    }
    return package;
  };
  const auto wrong = [&](bool makes_b, const std::function<void(Package&, package::LaunchKernel&)>& change) {
    Package changed = base(makes_b);
    for (package::Step& step : changed.steps) {
      if (auto* launch = std::get_if<package::LaunchKernel>(&step)) change(changed, *launch);
    }
    const std::string defect = find_defect(changed).value_or("none");
    return defect.substr(defect.find(": ") + 2);
  };
  for (const bool makes_b : {false, true}) {
    const Package package = base(makes_b);
    ASSERT_EQ(find_defect(package).value_or("none"), "none");
    const auto decoded = Package::decode(package.encode());
    ASSERT_TRUE(decoded) << decoded.error().render();
    EXPECT_EQ(*decoded, package);
    EXPECT_EQ(wrong(makes_b, [](Package& p, auto&) { gpu_of(p).family = package::GpuFamily::Vendor; }),
              makes_b ? "codetta_sample_01234567 makes no factors" : "codetta_sample_01234567 computes one product");
  }
  EXPECT_EQ(wrong(false, [](Package&, auto& l) { l.arguments.back() = 0; }),
            "B of product 1 is not what the kernel reads");
  EXPECT_EQ(wrong(true, [](Package&, auto& l) { l.product->more_b = {0}; }),
            "buffer 0 (A) is not read by what makes the factor");
  EXPECT_EQ(wrong(true, [](Package&, auto& l) { l.product->more_b.clear(); }), "there is no product 1");
  EXPECT_EQ(wrong(true, [](Package& p, auto&) { p.kernels[0].epilogue.factors[0].dtype = DType::f64; }),
            "codetta_sample_01234567 makes a factor of another type");
  EXPECT_EQ(wrong(true,
                  [](Package&, auto& l) {
                    l.product->b_made = {{0, {1}}, {0, {1}}};
                  }),
            "codetta_sample_01234567 has its factor made twice");
  // Of columns that differ: families whose tiles are one product's.
  const auto spaces = [](Package& p, auto&) {
    package::EpilogueProgram& program = p.kernels[0].epilogue;
    program.split = {};
    program.reductions.clear();
    package::Phase& phase = program.phases.front();
    package::Inst accumulator;
    accumulator.kind = package::Inst::Kind::Accumulator;
    accumulator.type = accumulator.aux = program.accumulator;
    phase = {package::Scope::Tile, true, {accumulator}, {{phase.stores.at(0).operand, 0}}};
    program.phases.resize(1);
    program.sizes = {types::Dim::constant(8)};
    program.spaces = {{0, 1}, {0, 0}};
  };
  EXPECT_EQ(wrong(false, spaces), "one") << "none";
  EXPECT_EQ(wrong(false,
                  [&](Package& p, auto& l) {
                    spaces(p, l);
                    gpu_of(p).family = package::GpuFamily::Simdgroup;
                  }),
            "codetta_sample_01234567 computes products of equal columns");
}

// A has a map for each item of its rows: the first in front, the others behind all others.
TEST(Package, ItemsOfRowsHaveMaps) {
  using Source = package::CudaTensorMap::Source;
  const auto said = [](int32_t items, const std::vector<std::pair<Source, uint32_t>>& maps) {
    Package package = cuda_sample();
    gpu_of(package).spread_a = items;
    package.kernels[0].maps.clear();
    for (const auto& [source, operand] : maps) package.kernels[0].maps.push_back({source, operand, 64, 64, 128});
    const auto decoded = Package::decode(package.encode());
    if (!decoded) return reason_of(decoded);
    EXPECT_EQ(*decoded, package);
    return std::string();
  };
  const std::string kernel = "kernel 0: ";
  EXPECT_EQ(said(1, {{Source::A, 0}, {Source::B, 0}}), "");
  EXPECT_EQ(said(2, {{Source::A, 0}, {Source::B, 0}, {Source::A, 1}}), "");
  EXPECT_EQ(
      said(4, {{Source::A, 0}, {Source::B, 0}, {Source::Operand, 0}, {Source::A, 1}, {Source::A, 2}, {Source::A, 3}}),
      "");
  EXPECT_EQ(said(1, {{Source::A, 1}, {Source::B, 0}}), kernel + "A's map 1 is not where 1 items have it");
  EXPECT_EQ(said(1, {{Source::A, 0}, {Source::A, 1}}), kernel + "A's map 1 is not where 1 items have it");
  EXPECT_EQ(said(2, {{Source::A, 0}, {Source::A, 1}, {Source::B, 0}}),
            kernel + "A's map 1 is not where 2 items have it");
  EXPECT_EQ(said(3, {{Source::A, 0}, {Source::B, 0}, {Source::A, 2}, {Source::A, 1}}),
            kernel + "A's map 2 is not where 3 items have it");
  EXPECT_EQ(said(2, {{Source::A, 0}, {Source::B, 0}}), kernel + "2 items of A's rows have 1 maps");
  EXPECT_EQ(said(2, {}), kernel + "2 items of A's rows have 0 maps");
  EXPECT_EQ(said(17, {{Source::A, 0}}), "spread_a is 17, not 1 to 16 (byte 257 of 807)");
}

TEST(Package, KernelsBelongToTheTarget) {
  Package package = cuda_sample();
  package.target = {};
  EXPECT_EQ(reason_of(Package::decode(package.encode())), "kernel 0 is not for the package's target");
}

TEST(Package, EveryPrefixAndEveryFlippedBitIsDamaged) {
  const std::string bytes = test::sample_package().encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = Package::decode(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error().message(), "error[E0520]: package is damaged");
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    ASSERT_FALSE(Package::decode(changed)) << at;
  }
}

TEST(Package, AnotherFormatSaysSo) {
  std::string bytes = test::sample_package().encode();
  constexpr uint32_t next = package::package_format + 1;
  bytes[8] = static_cast<char>(next);
  EXPECT_EQ(reason_of(Package::decode(bytes)),
            fmt::format("it has format {}, this library reads {}", next, package::package_format));
  EXPECT_EQ(reason_of(Package::decode("hello")), "its 5 bytes do not begin as a package does");
}

TEST(Package, BytesBehindTheDigestAreStillChecked) {
  const std::string bytes = test::sample_package().encode();
  const std::string body = bytes.substr(0, bytes.size() - 32);
  for (size_t at = 9; at < body.size(); ++at) {
    for (const int value : {0, 1, 0x7F, 0xFF}) {
      std::string changed = body;
      changed[at] = static_cast<char>(value);
      const auto decoded = Package::decode(changed + base::digest_of(changed).hex());
      if (decoded) {
        EXPECT_EQ(decoded->encode(), changed + base::digest_of(changed).hex());
      }
    }
  }
}

TEST(Package, ConfigurationsThatDoNotFit) {
  const auto refused = [](auto change) {
    Package package = test::sample_package();
    change(package);
    const std::string reason = reason_of(Package::decode(package.encode()));
    return reason.substr(0, reason.find(" (byte"));
  };
  EXPECT_EQ(refused([](Package& p) { std::get<CpuGemmConfig>(p.kernels[0].config).tile_cols = 1 << 20; }),
            "tile_cols is 1048576, not 1 to 16384");
  EXPECT_EQ(refused([](Package& p) { std::get<CpuGemmConfig>(p.kernels[0].config).mr = 0; }), "mr is 0, not 1 to 64");
  EXPECT_EQ(refused([](Package& p) { std::get<CpuGemmConfig>(p.kernels[0].config).accumulator = DType::f64; }),
            "a kernel and its epilogue accumulate in different types");
}

TEST(Package, ManifestIsJsonWithoutBinaries) {
  Package package = test::sample_package();
  package.name = "bad \xFF utf-8 \"quoted\"";
  const auto json = nlohmann::json::parse(package.manifest_json(), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["format"], package::package_format);
  EXPECT_EQ(json["buffers"].size(), 8u);
  EXPECT_EQ(json["buffers"][4]["shape"], nlohmann::json::array({"m", "n"}));
  EXPECT_EQ(json["kernels"][0]["binary_bytes"], 5);
  EXPECT_EQ(json["kernels"][0]["config"]["family"], "packed");
  EXPECT_EQ(json["steps"][8]["arguments"], nlohmann::json::array({"alpha", "C", "D", "norm"}));
  EXPECT_EQ(package.manifest_json(), package.manifest_json());
}

}  // namespace
