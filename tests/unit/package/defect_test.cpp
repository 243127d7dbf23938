// SPDX-License-Identifier: Apache-2.0
// Every defect that a package can have, found by find_defect() and so refused by decode(); every kind of step through
// the file form, the listing and the manifest.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <set>

#include "base/digest.hpp"
#include "unit/package/samples.hpp"

namespace {

using namespace codetta;
using namespace codetta::package;

using Role = Buffer::Role;
Dim c(int64_t value) { return Dim::constant(value); }
Dim s(const char* name) { return Dim::symbol(name); }

// Buffers: 0 x f32[n] argument, 1 y f32[n] output, 2..5 t0..t3 f32[n], 6 flag bool[1], 7 index i64[n], 8 scalar i64,
// 9 weights constant, 10 other f32[n] on device 1, 11 g donated.
Package base() {
  Package p;
  p.name = "base";
  p.device_count = 2;
  p.stream_count = 2;
  p.event_count = 2;
  p.result_count = 2;
  const auto n = s("n");
  p.buffers = {{"x", Role::Argument, DType::f32, false, {n}, {}}, {"y", Role::Output, DType::f32, false, {n}, {}}};
  for (const char* name : {"t0", "t1", "t2", "t3"})
    p.buffers.push_back({name, Role::Temporary, DType::f32, false, {n}, {}});
  p.buffers.push_back({"flag", Role::Argument, DType::boolean, false, {c(1)}, {}});
  p.buffers.push_back({"index", Role::Argument, DType::i64, false, {n}, {}});
  p.buffers.push_back({"scalar", Role::Argument, DType::i64, true, {}, {}});
  p.buffers.push_back({"weights", Role::Constant, DType::f32, false, {c(1)}, std::string(4, '\0')});
  p.buffers.push_back({"other", Role::Temporary, DType::f32, false, {n}, {}});
  p.buffers.back().device = 1;
  p.buffers.push_back({"g", Role::Argument, DType::f32, false, {n}, {}});
  p.buffers.back().donated = true;
  p.pools = {{0, n * c(16), 64}, {1, s("late"), 64}};
  p.steps.emplace_back(DefineSymbol{"n", 0, 0});
  return p;
}

// Of the steps behind the definition of n, with child lists.
std::string defect(std::vector<Step> steps, std::vector<StepList> lists = {}) {
  Package p = base();
  p.steps.insert(p.steps.end(), steps.begin(), steps.end());
  p.step_lists = std::move(lists);
  const std::string found = find_defect(p).value_or("none");
  const auto decoded = Package::decode(p.encode());
  EXPECT_EQ(decoded.has_value(), found == "none") << found;
  if (!decoded) {
    EXPECT_EQ(decoded.error().diagnostics()[0].reason, found);
  }
  return found;
}
template <class G>
Step check_of(G guard) {
  Check step;
  step.guard.emplace<G>(std::move(guard));
  return step;
}

TEST(PackageSteps, EveryKindThroughEveryForm) {
  const Package package = codetta::test::every_step();
  ASSERT_EQ(find_defect(package).value_or("none"), "none");
  const auto decoded = Package::decode(package.encode());
  ASSERT_TRUE(decoded) << decoded.error().render();
  EXPECT_EQ(*decoded, package);
  EXPECT_EQ(decoded->encode(), package.encode());
  std::set<size_t> kinds, guards;
  for (const Step& step : package.steps) {
    kinds.insert(step.index());
    if (const auto* check = std::get_if<Check>(&step)) guards.insert(check->guard.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Step>);
  EXPECT_EQ(guards.size(), std::variant_size_v<Guard>);
  const auto json = nlohmann::json::parse(package.manifest_json());
  std::set<std::string> names;
  for (const auto& step : json["steps"]) names.insert(step["step"].get<std::string>());
  EXPECT_EQ(names.size(), std::variant_size_v<Step>);
  EXPECT_EQ(json["step_lists"].size(), 4u);
}

TEST(PackageSteps, DamagedStepsAreRefusedOrReadTrue) {
  const std::string bytes = codetta::test::every_step().encode();
  for (size_t at = 9; at + 32 < bytes.size(); at += 3) {
    std::string changed = bytes.substr(0, bytes.size() - 32);
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    changed += base::digest_of(changed).hex();
    if (const auto decoded = Package::decode(changed)) {
      EXPECT_EQ(decoded->encode(), changed);
      EXPECT_FALSE(list_steps(*decoded).empty());
    }
  }
}

TEST(PackageSteps, Listing) {
  EXPECT_EQ(list_steps(codetta::test::every_step()), R"(define m = size of A in dim 0
define k = size of A in dim 1
define n = size of B in dim 1
define found_capacity = size of found in dim 0
define s = stride of A in dim 0
define u = value of count
define half = (2*m) / (2)
check m == half: twice and half
check D has stride 1 in its last dim
check D does not overlap C, or is the same view
check D has size m in dim 0
check A has stride s in dim 0
check A is aligned to 16 bytes
check n is a multiple of 1: columns come in ones
check 0 <= m <= 1048576: rows
# every step
load constant c
load constant weights
define codetta_sample_01234567
allocate t in pool 0 at 64*m
allocate once
fill once with 0, once
allocate own
fill own with bits 0x3f800000
leave own as it is
view view of own
copy view to column
launch codetta_sample_01234567 on A @ B transposed (m x n x k, batch 1) with [alpha, C, D, norm]
launch codetta_sample_01234567 on A @ B transposed (m x n x k, batch 1) with [alpha, C, D, norm], grid m x n x 1, block 128 x 1 x 1, cluster 2 x 1 x 1, cooperative, programmatic dependent, 4*n shared bytes, sizes [m, n, s], tiled map of C, im2col map of D, 4*n bytes of C persist in L2
reuse own as heir
reuse gift as after
enter gather returning [index]
  call nonzero with [heir, count] as result 0 of 2 outputs
  define u = size of output 0 of result 0 in dim 0
  define us = stride of output 0 of result 0 in dim 0
  select index = output 0 of result 0
  select picked = output 1 of result 0
  check index indexes m elements
  free picked
exit
allocate rows
call gather with [heir, index] into [rows]
check rows holds no NaN and no infinity: gather
put rows into heir at [index], added
allocate square
fill square with 0
scatter after into heir at square along dim 1, maximum
enter device 1
allocate there
copy heir to there
exit device
enter stream 1
record event 0
exit stream
wait for event 0
allocate flag
fill flag with 0
if flag:
  copy heir to after
else:
  # nothing
while flag, at most 100:
  condition:
    fill flag with 0
  body:
    fill heir with 0
free there
free t
return
)");
}

TEST(PackageDefects, Memory) {
  EXPECT_EQ(defect({Allocate{2}, Free{2}, Allocate{3}, Free{3}, Return{}}), "none");
  EXPECT_EQ(defect({Allocate{99}}), "step 1 (allocate): there is no buffer 99");
  EXPECT_EQ(defect({Allocate{0}}), "step 1 (allocate): buffer 0 (x) is not a temporary");
  EXPECT_EQ(defect({Allocate{2}, Allocate{2}}), "step 2 (allocate): buffer 2 (t0) is given memory by two steps");
  EXPECT_EQ(defect({Copy{2, 1}}), "step 1 (copy): buffer 2 (t0) has no memory yet");
  EXPECT_EQ(defect({Allocate{2}, Free{2}, Copy{2, 1}}), "step 3 (copy): buffer 2 (t0) is used behind its end");
  EXPECT_EQ(defect({Free{2}}), "step 1 (free): buffer 2 (t0) has no memory");
  EXPECT_EQ(defect({Free{1}}), "step 1 (free): buffer 1 (y) is not a temporary");
  EXPECT_EQ(defect({AllocateFromPool{2, 7, {}}}), "step 1 (allocate_from_pool): there is no pool 7");
  EXPECT_EQ(defect({AllocateFromPool{2, 0, s("o")}}), "step 1 (allocate_from_pool): symbol o is not defined yet");
  EXPECT_EQ(defect({EnterDevice{1}, AllocateFromPool{10, 1, {}}, ExitDevice{}}),
            "step 2 (allocate_from_pool): symbol late is not defined yet");
  EXPECT_EQ(defect({AllocateFromPool{10, 0, {}}}),
            "step 1 (allocate_from_pool): buffer 10 (other) and pool 0 lie on two devices");
  EXPECT_EQ(defect({Allocate{2}, Reuse{2, 3}, Copy{2, 1}}), "step 3 (copy): buffer 2 (t0) is used behind its end");
  EXPECT_EQ(defect({Reuse{0, 2}}), "step 1 (reuse): buffer 0 (x) does not own its memory");
  EXPECT_EQ(defect({Reuse{11, 2}, Copy{11, 1}}), "step 2 (copy): buffer 11 (g) is used behind its end");
  EXPECT_EQ(defect({Allocate{2}, Reuse{2, 10}}),
            "step 2 (reuse): buffer 2 (t0) and buffer 10 (other) lie on two devices");
  EXPECT_EQ(defect({Allocate{2}, Reinterpret{2, 3}, Reinterpret{3, 4}, Free{3}, Copy{4, 1}, Free{2}}), "none");
  EXPECT_EQ(defect({Allocate{2}, Reinterpret{2, 3}, Reinterpret{3, 4}, Free{2}, Copy{4, 1}}),
            "step 5 (copy): buffer 4 (t2) is used behind its end");
  EXPECT_EQ(defect({Allocate{2}, Reinterpret{2, 2}}), "step 2 (reinterpret): buffer 2 (t0) is a view of itself");
  EXPECT_EQ(defect({Allocate{2}, Reinterpret{2, 3}, Reuse{3, 4}}),
            "step 3 (reuse): buffer 3 (t1) does not own its memory");
  EXPECT_EQ(defect({LoadConstant{0}}), "step 1 (load_constant): buffer 0 (x) is not a constant");
  EXPECT_EQ(defect({LoadConstant{9}, LoadConstant{9}}), "step 2 (load_constant): buffer 9 (weights) is loaded already");
  EXPECT_EQ(defect({Copy{9, 1}}), "step 1 (copy): buffer 9 (weights) has no memory yet");
  EXPECT_EQ(defect({Copy{0, 0}}), "step 1 (copy): buffer 0 (x) must not be written");
  EXPECT_EQ(defect({Copy{1, 1}}), "step 1 (copy): buffer 1 (y) is copied to itself");
  EXPECT_EQ(defect({Copy{7, 1}}), "step 1 (copy): buffer 7 (index) and buffer 1 (y) differ in dtype or rank");
  EXPECT_EQ(defect({Copy{8, 1}}), "step 1 (copy): buffer 8 (scalar) is a scalar");
  EXPECT_EQ(defect({Fill{0}}), "step 1 (fill): buffer 0 (x) must not be written");
  EXPECT_EQ(defect({Fill{1, ZeroMode::PerCall, uint64_t{1} << 32}}), "step 1 (fill): a value of more than 4 bytes");
  EXPECT_EQ(defect({Fill{1, ZeroMode::Once}}), "step 1 (fill): buffer 1 (y) does not own its memory");
  EXPECT_EQ(defect({Copy{11, 1}, Copy{0, 11}}), "none");  // a donated argument is written
  EXPECT_EQ(defect({Allocate{10}, Fill{10}}),
            "step 2 (fill): buffer 10 (other) lies on device 1, and the step runs on device 0");
}

TEST(PackageDefects, BuffersAndPools) {
  const auto found = [](auto change) {
    Package p = base();
    change(p);
    EXPECT_FALSE(Package::decode(p.encode()).has_value());
    return find_defect(p).value_or("none");
  };
  EXPECT_EQ(found([](Package& p) {
              p.buffers[2].strides = {c(1), c(2)};
            }),
            "buffer 2: it has another number of strides than dims");
  EXPECT_EQ(found([](Package& p) { p.buffers[0].strides = {c(1)}; }),
            "buffer 0: strides or an offset belong to temporaries");
  EXPECT_EQ(found([](Package& p) { p.buffers[2].alignment = 48; }), "buffer 2: it is aligned to 48 bytes");
  EXPECT_EQ(found([](Package& p) { p.buffers[2].device = 2; }), "buffer 2: it lies on device 2");
  EXPECT_EQ(found([](Package& p) { p.buffers[8].shape = {c(1)}; }), "buffer 8: a scalar has dims or is no argument");
  EXPECT_EQ(found([](Package& p) { p.buffers[9].external = "w"; }), "buffer 9: its bytes are here and in a file");
  EXPECT_EQ(found([](Package& p) { p.buffers[2].external = "w"; }), "buffer 2: a constant's bytes belong to constants");
  EXPECT_EQ(found([](Package& p) { p.buffers[2].donated = true; }), "buffer 2: only tensor arguments are donated");
  EXPECT_EQ(found([](Package& p) { p.buffers[0].filled = {c(1)}; }), "buffer 0: what is filled is a part of an output");
  EXPECT_EQ(found([](Package& p) {
              p.buffers[1].filled = {c(1), c(1)};
            }),
            "buffer 1: what is filled is a part of an output");
  EXPECT_EQ(found([](Package& p) {
              p.buffers[1].filled = {s("late")};
              p.steps.emplace_back(Return{});
            }),
            "step 1 (return): symbol late is not defined yet");
  EXPECT_EQ(found([](Package& p) { p.pools[0].device = 2; }), "pool 0 lies on device 2");
  EXPECT_EQ(found([](Package& p) { p.pools[0].alignment = 0; }), "pool 0 is aligned to 0 bytes");
  EXPECT_EQ(found([](Package& p) { p.event_count = 1 << 20; }),
            "it counts more than 65536 devices, streams, events or results");
  EXPECT_EQ(found([](Package& p) { p.stream_count = 0; }), "it has no device or no stream");
  EXPECT_EQ(found([](Package& p) {
              p.pools[0].alignment = 32;
              p.steps.emplace_back(AllocateFromPool{2, 0, {}});
            }),
            "step 1 (allocate_from_pool): buffer 2 (t0) is aligned to 64 bytes, pool 0 to 32");
  EXPECT_EQ(found([](Package& p) {
              p.buffers[3].alignment = 256;
              p.steps.insert(p.steps.end(), {Allocate{2}, Reuse{2, 3}});
            }),
            "step 2 (reuse): buffer 2 (t0) is aligned to 64 bytes, buffer 3 (t1) to 256");
  Package p = base();
  p.buffers[0].dtype = static_cast<DType>(77);
  EXPECT_EQ(find_defect(p), "buffer 0: it has no dtype");
  p = base();
  p.buffers[2].shape.assign(9, c(1));
  EXPECT_EQ(find_defect(p), "buffer 2: it has too many dims");
  p = base();
  p.buffers[2].shape = {Dim::faulty(types::DimFault::overflow)};
  EXPECT_EQ(find_defect(p), "buffer 2: a size has no value");
}

// Views that have the strides of what they are a slice of.
TEST(PackageDefects, Slices) {
  const auto found = [](std::vector<Step> steps, auto change) {
    Package p = base();
    p.buffers[2].begin = {c(1)};
    change(p);
    p.steps.insert(p.steps.end(), steps.begin(), steps.end());
    const std::string defect = find_defect(p).value_or("none");
    const auto decoded = Package::decode(p.encode());
    EXPECT_EQ(decoded.has_value(), defect == "none") << defect;
    if (decoded) {
      EXPECT_EQ(decoded->buffers[2].begin, p.buffers[2].begin);
    }
    return defect;
  };
  const auto none = [](Package&) {};
  EXPECT_EQ(found({Reinterpret{0, 2}, Copy{2, 1}}, none), "none");
  EXPECT_EQ(found({Allocate{3}, Reinterpret{3, 2}, Copy{2, 1}, Free{3}}, none), "none");
  EXPECT_EQ(found({Allocate{2}}, none), "step 1 (allocate): buffer 2 (t0) is a slice, and is given memory of its own");
  EXPECT_EQ(found({AllocateFromPool{2, 0, {}}}, none),
            "step 1 (allocate_from_pool): buffer 2 (t0) is a slice, and is given memory of its own");
  EXPECT_EQ(found({Allocate{3}, Reuse{3, 2}}, none),
            "step 2 (reuse): buffer 2 (t0) is a slice, and is given memory of its own");
  EXPECT_EQ(found({Reinterpret{7, 2}}, none),
            "step 1 (reinterpret): buffer 2 (t0) is no slice of buffer 7 (index)");  // of another dtype
  EXPECT_EQ(found({Reinterpret{0, 2}},
                  [](Package& p) {
                    p.buffers[0].shape = {c(1), s("n")};
                  }),
            "step 1 (reinterpret): buffer 2 (t0) is no slice of buffer 0 (x)");
  EXPECT_EQ(found({Reinterpret{0, 2}}, [](Package& p) { p.buffers[2].begin = {s("late")}; }),
            "step 1 (reinterpret): symbol late is not defined yet");
  const char* const otherwise = "buffer 2: it is a slice, and lies otherwise";
  EXPECT_EQ(found({}, [](Package& p) { p.buffers[2].begin = {c(1), c(1)}; }), otherwise);
  EXPECT_EQ(found({}, [](Package& p) { p.buffers[2].strides = {c(2)}; }), otherwise);
  EXPECT_EQ(found({}, [](Package& p) { p.buffers[2].offset = c(64); }), otherwise);
  EXPECT_EQ(found({}, [](Package& p) { p.buffers[0].begin = {c(1)}; }), "buffer 0: it is a slice, and lies otherwise");
  EXPECT_EQ(found({}, [](Package& p) { p.buffers[2].begin = {Dim::faulty(types::DimFault::overflow)}; }),
            "buffer 2: a slice of it begins nowhere");
}

TEST(PackageDefects, SymbolsAndChecks) {
  using From = DefineSymbol::From;
  EXPECT_EQ(defect({DefineSymbol{"", 0, 0}}), "step 1 (define_symbol): a symbol has no name");
  EXPECT_EQ(defect({DefineSymbol{"m", 0, 1}}), "step 1 (define_symbol): buffer 0 (x) has no dim 1");
  EXPECT_EQ(defect({DefineSymbol{"m", 2, 0}}), "step 1 (define_symbol): buffer 2 (t0) has no memory here");
  EXPECT_EQ(defect({DefineSymbol{"m", 8, 0}}), "step 1 (define_symbol): buffer 8 (scalar) is a scalar");
  EXPECT_EQ(defect({DefineSymbol{"m", 8, 0, From::Value}}), "none");
  EXPECT_EQ(defect({DefineSymbol{"m", 0, 0, From::Value}}), "step 1 (define_symbol): buffer 0 (x) holds no integers");
  EXPECT_EQ(defect({DefineSymbol{"m", 7, 0, From::Value}}),
            "step 1 (define_symbol): buffer 7 (index) is not known to hold one element");
  EXPECT_EQ(defect({DefineSymbol{"m", 0, 0, From::Expression, 0, s("k")}}),
            "step 1 (define_symbol): symbol k is not defined yet");
  EXPECT_EQ(defect({DefineSymbol{"m", 0, 0, From::Size, 0, {}, s("k")}}),
            "step 1 (define_symbol): symbol k is not defined yet");
  EXPECT_EQ(defect({DefineSymbol{"m", 0, 0, From::OutputSize}}), "step 1 (define_symbol): this list has no result 0");
  EXPECT_EQ(defect({check_of(EqualGuard{s("n"), s("k"), ""})}), "step 1 (check): symbol k is not defined yet");
  EXPECT_EQ(defect({check_of(UnitStrideGuard{8})}), "step 1 (check): buffer 8 (scalar) is a scalar");
  EXPECT_EQ(defect({check_of(NoOverlapGuard{1, 99})}), "step 1 (check): there is no buffer 99");
  EXPECT_EQ(defect({check_of(SizeGuard{0, 3, c(1)})}), "step 1 (check): buffer 0 (x) has no dim 3");
  EXPECT_EQ(defect({check_of(StrideGuard{0, 0, s("k")})}), "step 1 (check): symbol k is not defined yet");
  EXPECT_EQ(defect({check_of(AlignmentGuard{0, 24})}), "step 1 (check): an alignment of 24 bytes");
  EXPECT_EQ(defect({check_of(DivisibleGuard{s("n"), s("k"), ""})}), "step 1 (check): symbol k is not defined yet");
  EXPECT_EQ(defect({check_of(RangeGuard{s("n"), c(0), s("k"), ""})}), "step 1 (check): symbol k is not defined yet");
  EXPECT_EQ(defect({check_of(NanGuard{7})}), "step 1 (check): buffer 7 (index) holds no floats");
  EXPECT_EQ(defect({check_of(IndexGuard{0, c(1)})}), "step 1 (check): buffer 0 (x) holds no integers");
}

TEST(PackageDefects, Kernels) {
  const auto found = [](auto change) {
    Package p = codetta::test::sample_package();
    change(p, *std::get_if<LaunchKernel>(&p.steps[8]));
    EXPECT_FALSE(Package::decode(p.encode()).has_value());
    return find_defect(p).value_or("none");
  };
  using P = Package;
  using L = LaunchKernel;
  EXPECT_EQ(found([](P&, L& l) { l.kernel = 1; }), "step 8 (launch_kernel): there is no kernel 1");
  EXPECT_EQ(found([](P&, L& l) { l.product->a = 99; }), "step 8 (launch_kernel): there is no buffer 99");
  EXPECT_EQ(found([](P&, L& l) { l.product->b = 3; }),
            "step 8 (launch_kernel): buffer 3 (C) is no factor of the product");
  EXPECT_EQ(found([](P&, L& l) { l.arguments.pop_back(); }),
            "step 8 (launch_kernel): 3 arguments are given and 4 are wanted");
  EXPECT_EQ(found([](P&, L& l) { l.arguments[2] = 3; }), "step 8 (launch_kernel): buffer 3 (C) must not be written");
  EXPECT_EQ(found([](P&, L& l) { l.arguments[0] = 3; }),
            "step 8 (launch_kernel): buffer 3 (C) does not fit argument 0 of the kernel");
  EXPECT_EQ(found([](P&, L& l) { l.m = s("q"); }), "step 8 (launch_kernel): symbol q is not defined yet");
  EXPECT_EQ(found([](P&, L& l) { l.options.cluster = {65, 1, 1}; }), "step 8 (launch_kernel): a cluster of 65 blocks");
  EXPECT_EQ(found([](P&, L& l) { l.options.sizes = {s("q")}; }), "step 8 (launch_kernel): symbol q is not defined yet");
  EXPECT_EQ(found([](P&, L& l) { l.options.maps.emplace_back().argument = 0; }),
            "step 8 (launch_kernel): a tensor map walks argument 0");
  EXPECT_EQ(found([](P&, L& l) { l.options.maps.emplace_back().argument = 1; }),
            "step 8 (launch_kernel): a tensor map of argument 1 has another rank than it");
  EXPECT_EQ(found([](P&, L& l) { l.options.sizes.assign(32, c(1)); }), "step 8 (launch_kernel): 32 sizes are passed");
  EXPECT_EQ(found([](P& p, L&) {
              p.target.backend = Backend::cuda;
              p.kernels[0].config = GpuUserConfig{};
              p.kernels[0].entries.clear();
            }),
            "kernel 0 is of the user's and has 0 entry points");
  const auto hooked = [&](int32_t position, int32_t first, int32_t arguments, int32_t sizes) {
    return found([&](P& p, L& l) {
      p.target.backend = Backend::cuda;
      for (package::Kernel& kernel : p.kernels) {
        GpuUserConfig config;
        config.hook = position, config.hook_first = first, config.hook_arguments = arguments, config.hook_sizes = sizes;
        kernel.config = config;
        kernel.entries = {{GpuEntry::Kind::Phase, 0, "k", 1, 0, 1}};
      }
      l.product.reset();
      l.options.sizes = {c(1), c(1)};
    });
  };
  EXPECT_EQ(hooked(1, 0, 2, 3), "step 8 (launch_kernel): a hook takes 3 of 2 sizes");
  EXPECT_EQ(hooked(0, 0, 0, 1), "step 8 (launch_kernel): a hook is parameter 0 and takes 0 of 4 arguments");
  EXPECT_EQ(hooked(0, 3, 2, 1), "step 8 (launch_kernel): a hook is parameter 0 and takes 2 of 4 arguments");
  EXPECT_EQ(hooked(1, 2, 2, 1), "step 8 (launch_kernel): a hook is parameter 1 and takes 2 of 4 arguments");
  EXPECT_EQ(hooked(3, 1, 2, 1), "step 8 (launch_kernel): a hook is parameter 3 and takes 2 of 4 arguments");
  EXPECT_EQ(found([](P&, L& l) {
              l.options.window = L2Window{9, c(4), 1000};
            }),
            "step 8 (launch_kernel): an L2 window is malformed");
  EXPECT_EQ(found([](P& p, L&) { p.target.backend = Backend::cuda; }), "kernel 0 is not for the package's target");
  EXPECT_EQ(found([](P& p, L&) { p.steps.insert(p.steps.begin() + 9, DefineKernel{0}); }),
            "step 9 (define_kernel): kernel 0 is launched before its definition");
  EXPECT_EQ(found([](P& p, L&) {
              p.steps.insert(p.steps.begin(), {DefineKernel{0}, DefineKernel{0}});
            }),
            "step 1 (define_kernel): kernel 0 is defined twice");
  EXPECT_EQ(found([](P& p, L&) { p.steps.insert(p.steps.begin(), DefineKernel{3}); }),
            "step 0 (define_kernel): there is no kernel 3");
}

TEST(PackageDefects, ExternsAndIndices) {
  using Form = CallExtern::Form;
  EXPECT_EQ(defect({CallExtern{"f", {0, 8}, Form::Out, {1}}}), "none");
  EXPECT_EQ(defect({CallExtern{"", {0}, Form::Out, {1}}}), "step 1 (call_extern): an extern has no name");
  EXPECT_EQ(defect({CallExtern{"f", {2}, Form::Out, {1}}}), "step 1 (call_extern): buffer 2 (t0) has no memory yet");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Out, {0}}}), "step 1 (call_extern): buffer 0 (x) must not be written");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Out, {1}, 1}}), "step 1 (call_extern): an out-form call has a result");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Alloc, {1}, 0, 1}}),
            "step 1 (call_extern): an alloc-form call writes buffers");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Alloc, {}, 2, 1}}), "step 1 (call_extern): there is no result 2");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Alloc, {}, 0, 1000}}),
            "step 1 (call_extern): an extern has more than 256 inputs or outputs");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Alloc, {}, 0, 1}, CallExtern{"f", {}, Form::Alloc, {}, 0, 1}}),
            "step 2 (call_extern): result 0 is made twice");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Alloc, {}, 0, 1}, SelectOutput{0, 1, 2}}),
            "step 2 (select_output): result 0 has no output 1");
  EXPECT_EQ(defect({SelectOutput{1, 0, 2}}), "step 1 (select_output): this list has no result 1");
  EXPECT_EQ(defect({CallExtern{"f", {}, Form::Alloc, {}, 0, 1}, SelectOutput{0, 0, 2}, SelectOutput{0, 0, 3}}),
            "step 3 (select_output): output 0 is selected twice");
  EXPECT_EQ(defect({IndexPut{1, {7}, 0, false}}), "none");
  EXPECT_EQ(defect({IndexPut{1, {}, 0, false}}), "step 1 (index_put): 0 indices for 1 dims");
  EXPECT_EQ(defect({IndexPut{1, {0}, 0, false}}), "step 1 (index_put): buffer 0 (x) holds no integers");
  EXPECT_EQ(defect({IndexPut{1, {7}, 7, false}}),
            "step 1 (index_put): buffer 7 (index) does not fit what is indexed: 1 dims are wanted");
  EXPECT_EQ(defect({Scatter{1, 7, 0, 0}}), "none");
  EXPECT_EQ(defect({Scatter{1, 7, 0, 1}}), "step 1 (scatter): buffer 1 (y) has no dim 1");
  EXPECT_EQ(defect({Scatter{1, 7, 7, 0}}),
            "step 1 (scatter): buffer 1 (y), buffer 7 (index) and buffer 7 (index) do not fit in rank or dtype");
}

TEST(PackageDefects, Scopes) {
  EXPECT_EQ(defect({EnterDevice{1}, EnterStream{1}, ExitStream{}, ExitDevice{}}), "none");
  EXPECT_EQ(defect({EnterDevice{2}}), "step 1 (enter_device): there is no device 2");
  EXPECT_EQ(defect({EnterStream{2}}), "step 1 (enter_stream): there is no stream 2");
  EXPECT_EQ(defect({EnterDevice{1}}), "a scope is not ended");
  EXPECT_EQ(defect({EnterDevice{1}, ExitStream{}}), "step 2 (exit_stream): it ends a scope that is not open");
  EXPECT_EQ(defect({ExitSubgraph{}}), "step 1 (exit_subgraph): it ends a scope that is not open");
  EXPECT_EQ(defect({WaitEvent{0}}), "step 1 (wait_event): event 0 is not recorded yet");
  EXPECT_EQ(defect({RecordEvent{5}}), "step 1 (record_event): there is no event 5");
  EXPECT_EQ(defect({EnterSubgraph{"f", {2}}, Allocate{2}, Allocate{3}, Free{3}, ExitSubgraph{}, Free{2}}), "none");
  EXPECT_EQ(defect({EnterSubgraph{"f", {}}, Allocate{2}, ExitSubgraph{}}),
            "step 3 (exit_subgraph): buffer 2 (t0) is not freed in the scope that allocates it");
  EXPECT_EQ(defect({EnterSubgraph{"f", {99}}}), "step 1 (enter_subgraph): there is no buffer 99");
  EXPECT_EQ(defect({Allocate{2}, EnterSubgraph{"f", {}}, Reinterpret{2, 3}, ExitSubgraph{}, Copy{3, 1}}),
            "step 5 (copy): buffer 3 (t1) is used behind its end");
  EXPECT_EQ(defect({Return{}, Comment{"x"}}), "step 1 (return): steps follow the end of the program");
}

TEST(PackageDefects, ControlFlow) {
  EXPECT_EQ(defect({If{6, 0, 1}}, {{Fill{1}}, {}}), "none");
  EXPECT_EQ(defect({If{0, 0, 1}}, {{}, {}}), "step 1 (if): buffer 0 (x) is not a boolean");
  EXPECT_EQ(defect({If{6, 0, 9}}, {{}}), "step 1 (if): there is no list 9");
  EXPECT_EQ(defect({If{6, 0, 0}}, {{}}), "step 1 (if): list 0 has two parents");
  EXPECT_EQ(defect({}, {{}}), "list 0 has no parent");
  EXPECT_EQ(defect({If{6, 0, 1}}, {{If{6, 0, 1}}, {}}), "step 1 (if): list 0, step 0 (if): list 0 has two parents");
  EXPECT_EQ(defect({If{6, 0, 1}}, {{Allocate{2}}, {}}),
            "step 1 (if): list 0: buffer 2 (t0) is not freed in the scope that allocates it");
  EXPECT_EQ(defect({Allocate{2}, If{6, 0, 1}}, {{Free{2}}, {}}),
            "step 2 (if): list 0: buffer 2 (t0) comes from outside and ends here");
  EXPECT_EQ(defect({Allocate{2}, If{6, 0, 1}}, {{Free{2}, Allocate{2}}, {}}),
            "step 2 (if): list 0, step 1 (allocate): buffer 2 (t0) is given memory by two steps");
  EXPECT_EQ(defect({If{6, 0, 1}}, {{Return{}}, {}}),
            "step 1 (if): list 0, step 0 (return): the end of the program belongs to the main list");
  EXPECT_EQ(defect({EnterDevice{0}, If{6, 0, 1}, ExitDevice{}}, {{ExitDevice{}}, {}}),
            "step 2 (if): list 0, step 0 (exit_device): it ends a scope of another list");
  EXPECT_EQ(defect({If{6, 0, 1}}, {{EnterDevice{0}}, {}}), "step 1 (if): list 0: a scope is not ended");
  // A symbol is there behind an If when both lists define it.
  const auto use = check_of(EqualGuard{s("m"), c(1), ""});
  EXPECT_EQ(defect({If{6, 0, 1}, use}, {{DefineSymbol{"m", 0, 0}}, {}}), "step 2 (check): symbol m is not defined yet");
  EXPECT_EQ(defect({If{6, 0, 1}, use}, {{DefineSymbol{"m", 0, 0}}, {DefineSymbol{"m", 1, 0}}}), "none");
  EXPECT_EQ(defect({If{6, 0, 1}}, {{DefineSymbol{"m", 0, 0}}, {use}}),
            "step 1 (if): list 1, step 0 (check): symbol m is not defined yet");
  EXPECT_EQ(defect({If{6, 0, 1}, WaitEvent{0}}, {{RecordEvent{0}}, {}}),
            "step 2 (wait_event): event 0 is not recorded yet");
  EXPECT_EQ(defect({If{6, 0, 1}, WaitEvent{0}}, {{RecordEvent{0}}, {RecordEvent{0}}}), "none");
  // A loop: the condition's symbols are there in the body and behind it, the body's are not.
  EXPECT_EQ(defect({While{0, 6, 1}, use}, {{DefineSymbol{"m", 0, 0}}, {use}}), "none");
  EXPECT_EQ(defect({While{0, 6, 1}, use}, {{}, {DefineSymbol{"m", 0, 0}}}),
            "step 2 (check): symbol m is not defined yet");
  EXPECT_EQ(defect({While{0, 6, 1, -1}}, {{}, {}}), "step 1 (while): a limit of -1 passes");
  EXPECT_EQ(defect({While{0, 6, 1}}, {{}, {LoadConstant{9}}}),
            "step 1 (while): list 1, step 0 (load_constant): the loading of a constant belongs to the main list");
  EXPECT_EQ(defect({While{0, 6, 1}}, {{}, {Allocate{2}, Fill{2, ZeroMode::Once}, Free{2}}}),
            "step 1 (while): list 1, step 1 (fill): a fill that is done once belongs to the main list");
  EXPECT_EQ(
      defect({While{0, 6, 1}}, {{}, {CallExtern{"f", {}, CallExtern::Form::Alloc, {}, 0, 1}, SelectOutput{0, 0, 2}}}),
      "step 1 (while): list 1: buffer 2 (t0) is not freed in the scope that allocates it");
  EXPECT_EQ(defect({CallExtern{"f", {}, CallExtern::Form::Alloc, {}, 0, 1}, If{6, 0, 1}},
                   {{SelectOutput{0, 0, 2}, Free{2}}, {}}),
            "step 2 (if): list 0, step 0 (select_output): this list has no result 0");
  // A pool belongs to the list that defines its size.
  const DefineSymbol late{"late", 0, 0};
  const StepList placed{late, EnterDevice{1}, AllocateFromPool{10, 1, {}}, Free{10}, ExitDevice{}};
  EXPECT_EQ(defect({If{6, 0, 1}}, {placed, {}}), "none");
  EXPECT_EQ(defect({While{0, 6, 1}}, {{}, placed}), "none");
  EXPECT_EQ(defect({If{6, 0, 1}}, {placed, placed}),
            "step 1 (if): list 1, step 2 (allocate_from_pool): the pool's size depends on late, which another list "
            "defines than where the pool is used first");
  EXPECT_EQ(defect({If{6, 0, 1}, EnterDevice{1}, AllocateFromPool{10, 1, {}}}, {{late}, {}}),
            "step 3 (allocate_from_pool): symbol late is not defined yet");
  // Nesting is bounded.
  std::vector<StepList> deep;
  for (uint32_t i = 0; i < 70; ++i) {
    deep.push_back({If{6, 2 * i + 2, 2 * i + 3}});
    deep.emplace_back();
  }
  deep.push_back({});
  deep.push_back({});
  EXPECT_NE(defect({If{6, 0, 1}}, deep).find("lists are nested more than 64 deep"), std::string::npos);
}

TEST(PackageDefects, ManyBuffersInLittleTime) {
  Package p = base();
  for (uint32_t i = 0; i < 20000; ++i) {
    const auto buffer = static_cast<uint32_t>(p.buffers.size());
    p.buffers.push_back({"b", Role::Temporary, DType::f32, false, {s("n")}, {}});
    p.steps.emplace_back(Allocate{buffer});
    p.steps.emplace_back(If{6, 2 * i, 2 * i + 1});
    p.step_lists.push_back({Fill{buffer}});
    p.step_lists.emplace_back();
  }
  EXPECT_EQ(find_defect(p).value_or("none"), "none");
}

}  // namespace
