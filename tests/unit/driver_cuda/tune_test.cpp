// SPDX-License-Identifier: Apache-2.0
// Which kernels tuning tries on a GPU, and that whatever it has measured is found again, listed or not.
#include <algorithm>
#include <set>

#include "driver/host_copy.hpp"
#include "driver/rotation.hpp"
#include "driver/tune_search.hpp"
#include "driver/tuning_record.hpp"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

const Target cuda{Backend::cuda, {}, ""};

bool lists(const KernelList& kernels, const std::string& name) {
  return std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.metadata().name == name; });
}
const package::KernelConfig& config_of(const Kernel& kernel) {
  const driver::KernelState& state = driver::KernelState::of(kernel);
  return (*state.found->planned())->plan.kernels[0].discovery.candidates.at(state.candidate).config;
}
const Kernel& named(const KernelList& kernels, const std::string& name) {
  return *std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.metadata().name == name; });
}

class CudaTuning : public CudaApi {
 protected:
  static Result<KernelList> all(const Problem& of, Context& context) {
    return find_kernels(of.arguments, cuda, {.all = true}, context);
  }
};

TEST_F(CudaTuning, EveryConfigurationCanBeNamed) {
  Context c = context();
  const Problem p = problem(c, bf16, plain, 2048, 2048, 2048);
  const KernelList listed = kernels(p, c), every = all(p, c).value();
  EXPECT_GT(every.size(), 4 * listed.size());
  for (const Kernel& kernel : listed) EXPECT_TRUE(lists(every, kernel.metadata().name)) << kernel.metadata().name;
  const auto ranked_out = [](const KernelList& list) {
    return std::any_of(list.rejections().begin(), list.rejections().end(),
                       [](const Rejection& r) { return r.code == static_cast<uint16_t>(diag::Code::ranked_out); });
  };
  EXPECT_TRUE(ranked_out(listed));
  EXPECT_FALSE(ranked_out(every));
  // One that is not listed, as API and package know it; asked for again it comes from the cache.
  const auto wanted = [&](const KernelMetadata& k) { return !lists(listed, k.name); };
  const KernelList others = find_kernels(p.arguments, cuda, {.filter = wanted, .all = true}, c).value();
  ASSERT_FALSE(others.empty());
  const std::string manifest = others[0].emit(Stage::Manifest).value();
  EXPECT_NE(manifest.find(others[0].metadata().name), std::string::npos) << manifest;
  Context later = context();
  EXPECT_EQ(
      find_kernels(p.arguments, cuda, {.filter = wanted, .all = true}, later).value()[0].emit(Stage::Manifest).value(),
      manifest);
  EXPECT_EQ(kernels(p, later)[0].metadata().name, listed[0].metadata().name) << "the pick is the same";
}

TEST_F(CudaTuning, TilesFirstThenWhatIsNearTheFastest) {
  Context c = context();
  const Problem p = problem(c, bf16, plain, 2048, 2048, 2048);
  const KernelList listed = kernels(p, c);
  const auto names = [](const std::vector<Kernel>& some) {
    std::vector<std::string> result;
    for (const Kernel& kernel : some) result.push_back(kernel.metadata().name);
    return result;
  };
  const auto tried = [&](size_t most) {
    int asked = 0;
    driver::TuneSearch search(listed, most, [&] { return ++asked, all(p, c); });
    const std::vector<Kernel> first = search.next(100).value();
    EXPECT_EQ(first.size(), most == 2 ? 2 : most / 2);
    EXPECT_EQ(asked, 0);
    for (size_t i = 0; i < first.size(); ++i) {
      search.measured(first[i], i == 1 ? 10 : 20);
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(plan::same_tile(config_of(first[i]), config_of(first[j])));
    }
    std::vector<std::string> result = names(first);
    Kernel fastest = first[1];
    for (double measured = 9;; --measured) {
      const std::vector<Kernel> next = search.next(100).value();
      if (next.empty()) break;
      EXPECT_LE(next.size(), 4U) << "a few at a time";
      int farthest = 0;
      for (const Kernel& kernel : next) {
        const auto steps = plan::steps_between(config_of(fastest), config_of(kernel));
        EXPECT_TRUE(steps) << kernel.metadata().name;
        EXPECT_GE(steps.value_or(0), farthest) << kernel.metadata().name;
        farthest = steps.value_or(0);
        result.push_back(kernel.metadata().name);
      }
      fastest = next.back();
      search.measured(fastest, measured);
    }
    return result;
  };
  EXPECT_EQ(tried(2).size(), 2U);
  EXPECT_EQ(tried(4).size(), 4U);
  const std::vector<std::string> once = tried(16);
  EXPECT_EQ(once.size(), 16U);
  EXPECT_EQ(std::set<std::string>(once.begin(), once.end()).size(), once.size()) << "each once";
  EXPECT_EQ(tried(16), once);
  EXPECT_TRUE(std::any_of(once.begin(), once.end(), [&](const std::string& name) { return !lists(listed, name); }));
}

// Which of two schedules is ahead hangs on the device's clock: both are among the first, however the ranking begins.
// Then one variant of each kind comes before the second of any.
TEST_F(CudaTuning, BothSchedulesAndEachKindOfVariantAreTried) {
  Context c = context();
  const Problem p = problem(c, bf16, plain, 4096, 4096, 4096);
  const KernelList listed = kernels(p, c), every = all(p, c).value();
  for (const size_t most : {4, 6, 16}) {
    driver::TuneSearch search(listed, most, [&] { return Result<KernelList>(every); });
    const std::vector<Kernel> first = search.next(100).value();
    EXPECT_EQ(first[0].metadata().name, listed[0].metadata().name);
    EXPECT_TRUE(std::any_of(first.begin(), first.end(), [&](const Kernel& kernel) {
      return !plan::same_schedule(config_of(first[0]), config_of(kernel));
    })) << most;
    for (const Kernel& kernel : first)
      search.measured(kernel, kernel.metadata().name == first[0].metadata().name ? 1 : 2);
    std::set<uint32_t> kinds;
    const std::vector<Kernel> next = search.next(100).value();
    ASSERT_FALSE(next.empty());
    for (const Kernel& kernel : next) {
      EXPECT_EQ(plan::steps_between(config_of(first[0]), config_of(kernel)), 1);
      EXPECT_TRUE(kinds.insert(plan::respects_between(config_of(first[0]), config_of(kernel))).second)
          << kernel.metadata().name;
    }
  }
}

TEST_F(CudaTuning, TheRankingGoesOnWhereNothingIsNear) {
  Context c = context();
  const Problem p = problem(c);
  const KernelList listed = kernels(p, c);
  driver::TuneSearch search(listed, 100, [&] { return all(p, c); });
  std::set<std::string> names;
  for (;;) {
    const std::vector<Kernel> next = search.next(3).value();
    if (next.empty()) break;
    for (const Kernel& kernel : next) EXPECT_TRUE(names.insert(kernel.metadata().name).second);
  }
  EXPECT_EQ(names.size(), listed.size()) << "nothing was measured";
  driver::TuneSearch failing(listed, 100, []() -> Result<KernelList> {
    return diag::error(diag::Code::internal, "nothing is found any more").help("try again");
  });
  while (true) {
    const auto next = failing.next(100);
    if (next) continue;
    expect(next, diag::Code::internal, "nothing is found any more");
    break;
  }
}

TEST_F(CudaTuning, TriesAsManyAsItMay) {
  Context c = context();
  Problem p = problem(c, f32, plain, 40, 40, 32);
  p.arguments.math = MathMode::Tf32;
  size_t total = 0, done = 0;
  TuneOptions tuning{.budget_seconds = 60, .max_candidates = 6};
  tuning.progress = [&](const TuneProgress& told) {
    EXPECT_LE(told.done, told.total);
    total = told.total;
    done = told.done;
    return true;
  };
  const TuneReport report = tune(p.arguments, cuda, tuning, c).value();
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.results.size(), 6U);
  EXPECT_EQ(total, 6U);
  EXPECT_EQ(done, 6U);
  std::set<std::string> names;
  for (const TuneResult& result : report.results) EXPECT_TRUE(names.insert(result.kernel).second) << result.kernel;
  EXPECT_EQ(kernels(p, c)[0].metadata().name, report.results[0].kernel);
}

TEST_F(CudaTuning, SetsOfTensorsOutgrowTheCache) {
  EXPECT_EQ(driver::sets_in_turn(0, 50), 1) << "nothing is read";
  EXPECT_EQ(driver::sets_in_turn(60, 0), 1) << "the device tells of no cache";
  EXPECT_EQ(driver::sets_in_turn(1, 50), 16);
  EXPECT_EQ(driver::sets_in_turn(10, 50), 11);
  EXPECT_EQ(driver::sets_in_turn(60, 50), 3);
  EXPECT_EQ(driver::sets_in_turn(400, 50), 2);
  EXPECT_EQ(driver::sets_in_turn(401, 50), 1);
}

TEST_F(CudaTuning, CopiesLieAsTheTensorsDo) {
  Context c = context();
  Problem p = problem(c, f32, "def f(accum, C, bias): D = accum + C + bias; return D", 40, 24, 8);
  const auto device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
  // In place, and A 4 bytes behind what is aligned, with rows that have a gap.
  const Tensor wide = Tensor::make(f32, {40, 9}).value();
  fill_random(wide, 5);
  p.tensors.push_back(DeviceTensor::copy_of(Device::open(c).value(), wide).value());
  const TensorView d = p.tensors[2].view(), bias = p.tensors[3].view();
  p.arguments.A = TensorView::make(p.tensors.back().view().as<float>() + 1, f32, {40, 8}, {9, 1}).value();
  p.arguments.epilogue = EpilogueArguments(*p.arguments.epilogue.epilogue(), {{"C", d}, {"D", d}, {"bias", bias}});
  const size_t before = fake_.allocations.size();
  {
    const auto rotation = driver::Rotation::make(p.arguments, device).value();
    ASSERT_EQ(rotation.copies().size(), 15U);
    EXPECT_EQ(fake_.allocations.size(), before + 15 * 4) << "A, B, bias, and C and D as one";
    std::set<const std::byte*> places{p.arguments.A.as<const std::byte>()};
    driver::HostCopies host(device.get());
    for (const GemmArguments& copy : rotation.copies()) {
      EXPECT_TRUE(places.insert(copy.A.as<const std::byte>()).second);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.A.as<const std::byte>()) % 256, 4U);
      EXPECT_EQ(copy.A.strides(), p.arguments.A.strides());
      const auto& named = copy.epilogue.arguments();
      EXPECT_EQ(*named[0].value.tensor(), *named[1].value.tensor());
      EXPECT_EQ(*copy.out, *named[1].value.tensor());
      const TensorView from = host.copy(p.arguments.A).value(), to = host.copy(copy.A).value();
      for (int64_t i = 0; i < 40; ++i)
        for (int64_t j = 0; j < 8; ++j)
          ASSERT_EQ(to.as<const float>()[i * 9 + j], from.as<const float>()[i * 9 + j]) << i << ' ' << j;
    }
  }
  EXPECT_EQ(fake_.allocations.size(), before);
  // Where memory is short there are fewer.
  fake_.works_before["cuMemAlloc_v2"] = 9;
  fake_.fail["cuMemAlloc_v2"] = runtime::cuda::Status::OutOfMemory;
  EXPECT_EQ(driver::Rotation::make(p.arguments, device).value().copies().size(), 2U);
}

// Sixteen workspaces may be too many where one is not.
TEST_F(CudaTuning, FewerSetsWhereTheirWorkspacesFindNoMemory) {
  Context c = context();
  const Problem p = problem(c, f32, plain, 64, 64, 4096);
  const auto device = runtime::cuda::Device::open(runtime::cuda::Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
  const auto rotation = driver::Rotation::make(p.arguments, device).value();
  ASSERT_EQ(rotation.copies().size(), 15U);
  size_t with_workspace = 0;
  for (const Kernel& kernel : all(p, c).value()) {
    const size_t before = fake_.count("cuMemAlloc_v2");
    const auto first = kernel.prepare(p.arguments);
    ASSERT_TRUE(first) << first.error().render();
    if (fake_.count("cuMemAlloc_v2") != before + 1) continue;
    fake_.works_before["cuMemAlloc_v2"] = 4;
    fake_.fail["cuMemAlloc_v2"] = runtime::cuda::Status::OutOfMemory;
    EXPECT_EQ(rotation.prepare(kernel).value().size(), 4U) << kernel.metadata().name;
    fake_.fail["cuMemAlloc_v2"] = runtime::cuda::Status::IllegalAddress;
    EXPECT_FALSE(rotation.prepare(kernel)) << "another failure is one";
    fake_.fail.clear();
    if (++with_workspace == 2) break;
  }
  EXPECT_GT(with_workspace, 0U);
}

TEST_F(CudaTuning, TimesOverSeveralSetsAndChecksOverTheCallers) {
  Context c = context();
  const Problem p = problem(c);
  const TuneReport report = tune(p.arguments, cuda, {.budget_seconds = 60, .max_candidates = 2}, c).value();
  ASSERT_FALSE(report.results.empty());
  EXPECT_EQ(report.results[0].failure, "");
  std::set<std::vector<std::byte>> passed;
  for (const auto& launch : fake_.captured) passed.insert(launch.parameters);
  EXPECT_EQ(passed.size(), 16U) << "addresses of one graph";
  EXPECT_EQ(verify(p.arguments, {}, cuda, 1, c)->verdict, VerifyReport::Verdict::Pass);
}

// The pretended device computes in f32, whatever tensor cores would.
TEST_F(CudaTuning, VariantsAreKeptExportedAndListed) {
  Context c = context();
  Problem p = problem(c, f32, plain, 256, 256, 128);
  p.arguments.math = MathMode::Tf32;
  const KernelList listed = kernels(p, c), every = all(p, c).value();
  const auto unlisted = std::find_if(every.begin(), every.end(), [&](const Kernel& kernel) {
    return kernel.metadata().family == "sm80" && !lists(listed, kernel.metadata().name);
  });
  ASSERT_NE(unlisted, every.end());
  const std::string variant = unlisted->metadata().name;
  // As tune() keeps what it has measured.
  driver::save_tuning(*driver::KernelState::of(*unlisted).found, {{{variant, 0.25}, {"cuda_nobody", 0.125}}});
  const KernelList ranked = kernels(p, c);
  EXPECT_EQ(ranked[0].metadata().name, variant);
  EXPECT_TRUE(ranked[0].metadata().tuned);
  EXPECT_EQ(ranked[0].metadata().measured_us, 0.25);
  // Another cache, by a file; and kernels of it run.
  const std::string file = export_tuning(c).value();
  EXPECT_NE(file.find(variant + "\t"), std::string::npos);
  ContextOptions elsewhere = options();
  elsewhere.cache_dir = folder_->path() + "/elsewhere";
  Context other = Context::make(elsewhere).value();
  EXPECT_FALSE(lists(kernels(p, other), variant));
  EXPECT_EQ(import_tuning(file, other).value().records, 1);
  const KernelList known = kernels(p, other);
  ASSERT_TRUE(lists(known, variant));
  EXPECT_TRUE(named(known, variant).prepare(p.arguments).value().run());
  EXPECT_EQ(known[0].metadata().name, variant);
  EXPECT_EQ(verify(p.arguments, {}, cuda, 1, other)->verdict, VerifyReport::Verdict::Pass);
  // As another process finds it, whose package is in the cache.
  ASSERT_TRUE(known.prepare(p.arguments));
  Context again = Context::make(elsewhere).value();
  EXPECT_EQ(kernels(p, again)[0].metadata().name, variant);
  // Without what was measured the pick is the model's.
  fake_.version = 12080;
  Context untuned = context();
  EXPECT_EQ(kernels(p, untuned)[0].metadata().name, listed[0].metadata().name);
}

}  // namespace
}  // namespace codetta
