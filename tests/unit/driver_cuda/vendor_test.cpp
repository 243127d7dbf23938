// SPDX-License-Identifier: Apache-2.0
// The vendor's family over a pretended driver and a pretended cuBLASLt: loading and its failures, what is matched, how
// it runs, that it can be left out.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "driver/tune_search.hpp"
#include "runtime/cuda/cublaslt.hpp"
#include "support/code_recorder.hpp"
#include "unit/driver_cuda/fake_cublaslt.hpp"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

using diag::Code;

class CudaVendorApi : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    lt_.reset();
  }
  ContextOptions with_vendor() {
    ContextOptions made = options();
    made.cublaslt = CODETTA_FAKE_CUBLASLT;
    made.vendor = true;
    return made;
  }
  struct Bound {
    std::vector<DeviceTensor> tensors;
    GemmArguments arguments;
    DeviceTensor& add(Context& context, DType dtype, const Dims& shape, bool output, uint64_t seed) {
      const Tensor host = Tensor::make(dtype, shape).value();
      output ? fill_poison(host) : fill_random(host, seed);
      tensors.push_back(DeviceTensor::copy_of(Device::open(context).value(), host).value());
      return tensors.back();
    }
  };
  // A and B of f32 in all four layouts, operands of the text by name.
  static Bound bound(Context& context, const std::string& text, bool transpose_a = false, bool transpose_b = false,
                     int64_t batch = 0, std::vector<NamedArgument> scalars = {}) {
    Bound made;
    const auto dims = [&](int64_t rows, int64_t cols) {
      return batch > 0 ? Dims{batch, rows, cols} : Dims{rows, cols};
    };
    const auto factor = [&](int64_t rows, int64_t cols, bool transposed, uint64_t seed) {
      const TensorView view =
          made.add(context, f32, transposed ? dims(cols, rows) : dims(rows, cols), false, seed).view();
      return transposed ? view.transposed() : view;
    };
    made.arguments.A = factor(m, k, transpose_a, 1);
    made.arguments.B = factor(k, n, transpose_b, 2);
    std::vector<NamedArgument> named = std::move(scalars);
    const auto tensor = [&](const char* name, const Dims& shape, bool output) {
      const std::string word(name);
      if (text.find(", " + word) == std::string::npos && text.find("return " + word) == std::string::npos) return;
      named.push_back({name, made.add(context, f32, shape, output, 7).view()});
      if (word == "D") made.arguments.out = made.tensors.back().view();
    };
    tensor("bias", {n}, false);
    tensor("column", {m, 1}, false);
    tensor("C", dims(m, n), false);
    tensor("F", dims(m, n), text.find("return D, F") != std::string::npos);
    tensor("D", dims(m, n), true);
    made.arguments.epilogue = EpilogueArguments::make(text, named).value();
    return made;
  }
  static std::vector<Kernel> vendors(const KernelList& list) {
    std::vector<Kernel> result;
    for (const Kernel& kernel : list) {
      if (kernel.metadata().family == "vendor") result.push_back(kernel);
    }
    return result;
  }
  static std::string refusal(const KernelList& list) {
    for (const Rejection& rejection : list.rejections()) {
      if (rejection.kernel != "cuda_vendor") continue;
      test::record_code(rejection.code);
      return diag::code_text(rejection.code) + ": " + rejection.text;
    }
    return "none";
  }
  static KernelList find(const Bound& of, Context& context) {
    return find_kernels(of.arguments, {Backend::cuda, {}, ""}, {}, context).value();
  }
  void expect_right(Context& c, const Bound& p, const std::string& what) {
    const KernelList found = find(p, c);
    const auto kernels = vendors(found);
    ASSERT_EQ(kernels.size(), 3U) << what << "\n" << refusal(found);
    for (size_t i = 0; i < kernels.size(); ++i) {
      Execution execution = kernels[i].prepare(p.arguments).value();
      ASSERT_TRUE(execution.run()) << what;
      const auto checked = verify(p.arguments, {}, {Backend::cuda, {}, ""}, 1, c).value();
      EXPECT_EQ(checked.verdict, VerifyReport::Verdict::Pass) << what << "\n" << checked.text;
    }
  }
  test::FakeCublasLt& lt_ = test::fake_cublaslt(CODETTA_FAKE_CUBLASLT);
};

const char* const biased = "def f(accum, bias):\n    D = accum + bias\n    return D\n";

TEST_F(CudaVendorApi, ItsProposalsAreCandidates) {
  lt_.workspace = 1000;
  Context c = Context::make(with_vendor()).value();
  const Bound p = bound(c, plain);
  const auto kernels = vendors(find(p, c));
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0].metadata().name, "cuda_vendor_13.0.0_0_sm_90a");
  EXPECT_EQ(kernels[0].metadata().workspace_bytes, 1000);
  EXPECT_EQ(kernels[1].metadata().name, "cuda_vendor_13.0.0_1_sm_90a");
  EXPECT_FALSE(kernels[0].metadata().terms.empty());
  EXPECT_EQ(kernels[0].compile().value(), 0.0) << "nothing is compiled";
  Execution execution = kernels[1].prepare(p.arguments).value();
  EXPECT_EQ(execution.workspace_size(), 1024);
  ASSERT_TRUE(execution.run());
  EXPECT_EQ(lt_.algorithm, 2U) << "the second proposal";
  EXPECT_EQ(lt_.workspace_given, 1000U);
  EXPECT_EQ(lt_.reductions, 2U) << "partial sums in the compute type only";
  expect(kernels[0].emit(Stage::Source), Code::stage_missing, "no source");
  EXPECT_NE(kernels[0].emit(Stage::Manifest).value().find("\"family\": \"vendor\""), std::string::npos);
  EXPECT_NE(explain(p.arguments, {Backend::cuda, {}, ""}, false, c).value().find("cuda_vendor_13.0.0_2"),
            std::string::npos);
}

// However many proposals there are, and however well they are thought of.
TEST_F(CudaVendorApi, TuningTriesFewOfTheVendorsAtFirst) {
  lt_.proposals = 9;
  Context c = Context::make(with_vendor()).value();
  const Problem p = problem(c, f32, plain, 512, 512, 512);
  const KernelList listed = find_kernels(p.arguments, {Backend::cuda, {}, ""}, {}, c).value();
  ASSERT_GT(vendors(listed).size(), 5U);
  for (const size_t most : {4, 12, 24}) {
    driver::TuneSearch search(listed, most, [&] { return Result<KernelList>(listed); });
    const std::vector<Kernel> first = search.next(most).value();
    size_t of_vendor = 0;
    for (const Kernel& kernel : first) of_vendor += kernel.metadata().family == "vendor" ? 1 : 0;
    EXPECT_LE(of_vendor, std::max<size_t>(1, most / 8));
    EXPECT_GT(of_vendor, 0U);
    EXPECT_EQ(first.size(), std::max<size_t>(2, most / 2));
  }
}

// Where the vendor's ranks first, too: the schedule is asked of tiles that have one.
TEST_F(CudaVendorApi, AnotherScheduleIsTriedBehindTheVendors) {
  Context c = Context::make(with_vendor()).value();
  const Problem p = problem(c, bf16, plain, 4096, 4096, 4096);
  const auto tile = [](const std::string& name) { return name.substr(0, name.find('_', 10)); };  // cuda_sm90_64x64x64
  // Of what ranks behind it two tiles of sm_90a, and then one of another family.
  std::vector<std::string> wanted;
  double first_us = 0;
  for (const Kernel& kernel : find_kernels(p.arguments, {Backend::cuda, {}, ""}, {.all = true}, c).value()) {
    const KernelMetadata& k = kernel.metadata();
    const bool sm90 = k.family == "sm90" && k.name.find("_pp") == std::string::npos;
    const size_t have = wanted.size();
    const bool next = have == 0   ? k.family == "vendor"
                      : have == 1 ? sm90
                      : have == 2 ? sm90 && tile(k.name) != tile(wanted[1])
                                  : have == 3 && k.family == "sm80" && k.estimated_us < 1.2 * first_us;
    if (have == 1 && next) first_us = k.estimated_us;
    if (next) wanted.push_back(k.name);
  }
  ASSERT_EQ(wanted.size(), 4U);
  const auto is_wanted = [&](const KernelMetadata& k) {
    return std::find(wanted.begin(), wanted.end(), k.name) != wanted.end();
  };
  const KernelList listed =
      find_kernels(p.arguments, {Backend::cuda, {}, ""}, {.filter = is_wanted, .all = true}, c).value();
  driver::TuneSearch search(listed, 6, [&] { return Result<KernelList>(listed); });
  std::vector<std::string> tried;
  for (const Kernel& kernel : search.next(6).value()) tried.push_back(kernel.metadata().name);
  EXPECT_EQ(tried, (std::vector<std::string>{wanted[0], wanted[1], wanted[3]}));
}

TEST_F(CudaVendorApi, RowsThatAreNotAlignedAreExpectedToBeSlow) {
  Context c = Context::make(with_vendor()).value();
  const auto multiply = [&](DType dtype, int64_t depth) {
    const Problem p = problem(c, dtype, plain, 512, 256, depth);
    const auto kernels = vendors(find_kernels(p.arguments, {Backend::cuda, {}, ""}, {}, c).value());
    EXPECT_FALSE(kernels.empty());
    return kernels[0].metadata().terms.at(0).value;
  };
  EXPECT_GT(multiply(bf16, 4095), 4 * multiply(bf16, 4096));
  EXPECT_NEAR(multiply(bf16, 4088), multiply(bf16, 4096), 0.01 * multiply(bf16, 4096));
  EXPECT_NEAR(multiply(f32, 4095), multiply(f32, 4096), 0.01 * multiply(f32, 4096)) << "not measured";
}

// A proposal's rank means something for the problem only that the library was asked for.
TEST_F(CudaVendorApi, ItIsPlannedForWhatRuns) {
  Context c = Context::make(with_vendor()).value();
  using Question = test::FakeCublasLt::Question;
  const auto questions = [&](int64_t items, int64_t rows, bool gaps) {
    Bound p;
    p.arguments.A = p.add(c, f32, {items, rows, k}, false, 1).view();
    p.arguments.B = p.add(c, f32, {k, n}, false, 2).view();
    const TensorView whole = p.add(c, f32, {items, rows + (gaps ? 1 : 0), n + 4}, true, 3).view();
    p.arguments.out = TensorView::make(whole.data(), f32, {items, rows, n}, {whole.stride(0), n + 4, 1}).value();
    p.arguments.epilogue = EpilogueArguments::make(plain, {{"D", *p.arguments.out}}).value();
    lt_.questions.clear();
    const auto kernels = vendors(find(p, c));
    EXPECT_EQ(kernels.size(), 3U);
    const size_t planned = lt_.questions.size();
    EXPECT_GE(planned, 1U);
    EXPECT_TRUE(kernels[1].prepare(p.arguments));
    EXPECT_GT(lt_.questions.size(), planned);
    for (const Question& question : lt_.questions) EXPECT_EQ(question, lt_.questions[0]) << items << " x " << rows;
    return lt_.questions[0];
  };
  const int64_t apart = n + 4;
  EXPECT_EQ(questions(6, 1, false), (Question{1, 6, apart}));
  EXPECT_EQ(questions(3, 5, false), (Question{1, 15, apart}));
  EXPECT_EQ(questions(3, 5, true), (Question{3, 5, apart})) << "rows of the next item don't follow";
  EXPECT_EQ(questions(6, 1, true), (Question{1, 6, 2 * apart}));
}

TEST_F(CudaVendorApi, EveryLayoutAndEntryOfTheMenu) {
  Context c = Context::make(with_vendor()).value();
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) expect_right(c, bound(c, plain, a, b), "layout");
  }
  expect_right(c, bound(c, plain, false, true, 3), "batched");
  expect_right(c, bound(c, "def f(accum, bias):\n    D = accum + bias\n    return D\n"), "bias");
  expect_right(c, bound(c, "def f(accum, bias):\n    D = accum * 0.5 + bias\n    return D\n"), "alpha and bias");
  expect_right(c, bound(c, "def f(accum, C):\n    D = accum * 3.0 + C * 2.0\n    return D\n"), "alpha and beta");
  expect_right(c, bound(c, "def f(accum, C):\n    D = C + accum\n    return D\n"), "C");
  expect_right(c,
               bound(c, "def f(accum, alpha, beta, C):\n    D = alpha * accum + beta * C\n    return D\n", false, false,
                     0, {{"alpha", 0.25}, {"beta", -1.5}}),
               "numbers");
  expect_right(c, bound(c, "def f(accum, C, bias):\n    D = accum * 2.0 + C + bias\n    return D\n"), "C and bias");
  expect_right(c, bound(c, biased, false, false, 2), "a bias for every item of a batch");
}

// Items with one B are rows of one product, where A and D lie so; else each is one of its own.
TEST_F(CudaVendorApi, ItemsWithOneB) {
  Context c = Context::make(with_vendor()).value();
  struct Case {
    int64_t rows, gap;  // of an item; elements between items of A
  };
  for (const Case& one : {Case{7, 0}, Case{7, 8}, Case{1, 0}, Case{1, 16}}) {
    SCOPED_TRACE(testing::Message() << one.rows << " rows, gap " << one.gap);
    Bound p;
    constexpr int64_t items = 5;
    const int64_t item = one.rows * k + one.gap;
    const TensorView a = p.add(c, f32, {items * item}, false, 1).view();
    p.arguments.A = TensorView::make(a.data(), f32, Dims{items, one.rows, k}, Dims{item, k, 1}).value();
    p.arguments.B = p.add(c, f32, {k, n}, false, 2).view();
    const TensorView d = p.add(c, f32, {items, one.rows, n}, true, 3).view();
    p.arguments.out = d;
    const std::vector<NamedArgument> named{{"D", d}};
    p.arguments.epilogue = EpilogueArguments::make(plain, named).value();
    const KernelList found = find(p, c);
    const auto kernels = vendors(found);
    ASSERT_FALSE(kernels.empty()) << refusal(found);
    auto execution = kernels[0].prepare(p.arguments);
    ASSERT_TRUE(execution) << execution.error().render();
    ASSERT_TRUE(execution->run());
    const auto checked = verify(p.arguments, {}, {Backend::cuda, {}, ""}, 1, c).value();
    EXPECT_EQ(checked.verdict, VerifyReport::Verdict::Pass) << checked.text;
  }
}

TEST_F(CudaVendorApi, WhatIsNotOnTheMenuIsRefusedWithAReason) {
  Context c = Context::make(with_vendor()).value();
  const struct {
    const char* text;
    const char* why;
  } cases[] = {
      {"def f(accum):\n    D = silu(accum)\n    return D\n", "silu"},
      {"def f(accum):\n    D = relu(accum)\n    return D\n", "relu of NaN"},
      {"def f(accum):\n    D = gelu(accum)\n    return D\n", "erf form"},
      {"def f(accum):\n    D = gelu(accum, approximate=\"tanh\")\n    return D\n", "1 + tanh cancels"},
      {"def f(accum, F):\n    D = accum * dgelu(F, approximate=\"tanh\")\n    return D\n", "1 + tanh cancels"},
      {"def f(accum, C):\n    D = accum + C * 0.0\n    return D\n", "times 0"},
      {"def f(accum, column):\n    D = accum + column\n    return D\n", "along M"},
      {"def f(accum, bias):\n    D = (accum + bias) * 2.0\n    return D\n", "mul"},
      {"def f(accum, bias, C):\n    D = accum + bias + C\n    return D\n", "not on it"},
      {"def f(accum):\n    D = accum\n    F = accum * 2.0\n    return D, F\n", "second matrix"},
      {"def f(accum):\n    D = sum(accum, axis=\"row\")\n    return D\n", "reductions"},
  };
  for (const auto& wanted : cases) {
    Bound p = bound(c, wanted.text);
    if (std::string(wanted.text).find("sum(") != std::string::npos) {
      p.arguments.out = p.add(c, f32, {m, 1}, true, 1).view();
      p.arguments.epilogue = EpilogueArguments::make(wanted.text, {{"D", *p.arguments.out}}).value();
    }
    const KernelList found = find(p, c);
    EXPECT_TRUE(vendors(found).empty()) << wanted.text;
    EXPECT_NE(refusal(found).find("E0420"), std::string::npos) << wanted.text << refusal(found);
    EXPECT_NE(refusal(found).find(wanted.why), std::string::npos) << wanted.text << refusal(found);
  }
  const char* const scaled = "def f(accum, beta, C):\n    D = accum + beta * C\n    return D\n";
  EXPECT_NE(refusal(find(bound(c, scaled, false, false, 0, {{"beta", 0.0}}), c)).find("beta is 0"), std::string::npos);
  // A number that becomes 0 afterwards.
  const Bound p = bound(c, scaled, false, false, 0, {{"beta", 1.5}});
  const auto kernels = vendors(find(p, c));
  ASSERT_FALSE(kernels.empty());
  GemmArguments zero = p.arguments;
  std::vector<NamedArgument> named = p.arguments.epilogue.arguments();
  for (NamedArgument& argument : named) {
    if (argument.name == "beta") argument.value = 0.0;
  }
  zero.epilogue = EpilogueArguments(*p.arguments.epilogue.epilogue(), named);
  expect(kernels[0].prepare(zero), Code::guard_failed, "beta is 0");
  GemmArguments strict = p.arguments;
  strict.strict = true;
  EXPECT_NE(refusal(find_kernels(strict, {Backend::cuda, {}, ""}, {}, c).value()).find("contraction"),
            std::string::npos);
}

TEST_F(CudaVendorApi, NothingProposedIsAReason) {
  lt_.proposals = 0;
  Context c = Context::make(with_vendor()).value();
  const KernelList found = find(bound(c, plain), c);
  EXPECT_TRUE(vendors(found).empty());
  EXPECT_NE(refusal(found).find("E0421: cuBLASLt 13.0.0 proposes nothing for f32 x f32"), std::string::npos)
      << refusal(found);
  EXPECT_FALSE(found.empty()) << "own kernels are there";
  // Proposals that are fewer when it is prepared than when it was planned.
  lt_.proposals = 3;
  Context other = Context::make(with_vendor()).value();
  const Bound p = bound(other, biased);
  const auto kernels = vendors(find(p, other));
  ASSERT_EQ(kernels.size(), 3U);
  lt_.proposals = 1;
  expect(kernels[2].prepare(p.arguments), Code::kernel_resources, "proposal 2, and it has 1");
}

TEST_F(CudaVendorApi, CanBeSwitchedOffOrBeAbsent) {
  ContextOptions off = with_vendor();
  off.vendor = false;
  Context c = Context::make(off).value();
  EXPECT_NE(refusal(find(bound(c, plain), c)).find("E0421: the vendor's kernels are switched off"), std::string::npos);
  EXPECT_EQ(lt_.asked, 0);
  ContextOptions missing = with_vendor();
  missing.cublaslt = folder_->path() + "/libcublasLt.so.13";
  c = Context::make(missing).value();
  EXPECT_NE(refusal(find(bound(c, plain), c)).find("E0421: cuBLASLt can not be used: there is no file"),
            std::string::npos)
      << refusal(find(bound(c, plain), c));
  std::ofstream(missing.cublaslt) << "no library\n";
  EXPECT_NE(refusal(find(bound(c, plain), c)).find("E0421"), std::string::npos);
  ASSERT_FALSE(find(bound(c, plain), c).empty());
  // Of another architecture than the device's nothing is proposed.
  const Bound p = bound(c, plain);
  const KernelList other = find_kernels(p.arguments, Target::parse("cuda:sm_80").value(), {}, c).value();
  EXPECT_NE(refusal(other).find("a device that is there"), std::string::npos) << refusal(other);
}

TEST_F(CudaVendorApi, LoadingSaysWhatIsWrong) {
  using runtime::cuda::CublasLt;
  expect(CublasLt::load({.file = "/nonexistent/libcublasLt.so.13"}), Code::vendor_library, "there is no file");
  expect(CublasLt::load({.file = CODETTA_FAKE_NVRTC}), Code::vendor_library, "lacks cublasLtCreate");
  for (const size_t version : {size_t{110805}, size_t{140000}}) {
    lt_.version = version;
    expect(CublasLt::load({.file = CODETTA_FAKE_CUBLASLT}), Code::vendor_library, "12 and 13 are known");
  }
  lt_.version = 120803;
  const auto loaded = CublasLt::load({.file = CODETTA_FAKE_CUBLASLT}).value();
  EXPECT_EQ(loaded->version_text(), "12.8.3");
}

TEST_F(CudaVendorApi, FailuresOfItsCallsAreTyped) {
  Context c = Context::make(with_vendor()).value();
  const Bound p = bound(c, plain);
  const auto kernels = vendors(find(p, c));
  ASSERT_FALSE(kernels.empty());
  Execution execution = kernels[0].prepare(p.arguments).value();
  lt_.fail_multiply = 13;
  expect(execution.run(), Code::vendor_library, "cublasLtMatmul(codetta_vendor_");
  expect(execution.run(), Code::vendor_library, ", device = 0)");
  lt_.fail_multiply = 0;
  EXPECT_TRUE(execution.run());
  lt_.fail_create = 1;
  Context other = Context::make(with_vendor()).value();
  EXPECT_NE(refusal(find(bound(other, plain), other)).find("cublasLtCreate"), std::string::npos);
}

TEST_F(CudaVendorApi, TunedLikeAnyOther) {
  Context c = Context::make(with_vendor()).value();
  const Bound p = bound(c, plain);
  TuneOptions tuning;
  tuning.max_candidates = 64;
  const TuneReport report = tune(p.arguments, {Backend::cuda, {}, ""}, tuning, c).value();
  size_t right = 0;
  for (const TuneResult& result : report.results)
    right += result.kernel.find("vendor") != std::string::npos && result.failure.empty() ? 1 : 0;
  EXPECT_EQ(right, 3U);
  // Another version's kernels are others, and are measured anew.
  lt_.version = 130100;
  const std::filesystem::path link =
      std::filesystem::temp_directory_path() / ("codetta-cublaslt-" + std::to_string(::getpid()) + ".so");
  std::filesystem::create_symlink(CODETTA_FAKE_CUBLASLT, link);  // what is known of a file holds until the file changes
  ContextOptions other = with_vendor();
  other.cublaslt = link.string();
  Context later = Context::make(other).value();
  const KernelList found = find(p, later);
  std::filesystem::remove(link);
  for (const Kernel& kernel : found) EXPECT_FALSE(kernel.metadata().tuned) << kernel.metadata().name;
  EXPECT_FALSE(vendors(found).empty());
}

// What the library can do beside: its gelu with the matrix that it is taken of.
TEST_F(CudaVendorApi, GeluWithASecondMatrix) {
  using namespace runtime::cuda;
  const auto device = runtime::cuda::Device::open(Driver::load(CODETTA_FAKE_DRIVER).value(), 0).value();
  const auto handle = CublasLtHandle::make(CublasLt::load({.file = CODETTA_FAKE_CUBLASLT}).value(), device).value();
  package::VendorProblem problem;
  problem.config.activation = package::CudaVendorConfig::Activation::Gelu;
  problem.config.aux = 1;
  problem.m = 3, problem.n = 2, problem.k = 1;
  problem.a_row = 1, problem.b_k = problem.d_row = problem.aux_row = 2;
  VendorProduct product = VendorProduct::make(handle, problem).value();
  ASSERT_FALSE(product.proposals().empty());
  const std::vector<float> a{1, 2, 3}, b{-1, 1};
  std::vector<float> d(6), aux(6);
  VendorProduct::Addresses at;
  at.a = a.data(), at.b = b.data(), at.d = d.data(), at.aux = aux.data();
  ASSERT_TRUE(product.bind(0, at, 1, 0));
  ASSERT_EQ(product.run(nullptr, nullptr), lt::Status::Success);
  EXPECT_EQ(aux, (std::vector<float>{-1, 1, -2, 2, -3, 3}));
  EXPECT_NEAR(d[1], 0.8412F, 1e-3F);
  EXPECT_NEAR(d[5], 2.9964F, 1e-3F);
  problem.d_row = 1;
  expect(VendorProduct::make(handle, problem), Code::guard_failed, "rows of D are 1 apart and 2 long");
}

TEST_F(CudaVendorApi, GivesBackWhatItTakes) {
  {
    Context c = Context::make(with_vendor()).value();
    const Bound p = bound(c, biased);
    const auto kernels = vendors(find(p, c));
    ASSERT_FALSE(kernels.empty());
    Execution execution = kernels[0].prepare(p.arguments).value();
    ASSERT_TRUE(execution.run());
    EXPECT_EQ(lt_.descriptors, 1);
    EXPECT_EQ(lt_.layouts, 4);
  }
  EXPECT_EQ(lt_.descriptors, 0);
  EXPECT_EQ(lt_.layouts, 0);
  EXPECT_EQ(lt_.preferences, 0);
  EXPECT_EQ(lt_.handles, 0);
}

}  // namespace
}  // namespace codetta
