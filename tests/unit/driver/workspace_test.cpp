// SPDX-License-Identifier: Apache-2.0
// What metadata says of the workspace is what an Execution has, for every candidate of many problems.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "support/slice.hpp"

namespace {

using namespace codetta;

struct Case {
  int64_t batch, m, n, k;
  DType dtype;
  bool transpose_b;
  const char* epilogue;
};

constexpr const char* plain = "def e(accum):\n    D = accum\n    return D\n";
constexpr const char* relu = "def e(accum):\n    D = relu(accum)\n    return D\n";
constexpr const char* by_row = "def e(accum):\n    D = accum - max(accum, axis=\"row\")\n    return D\n";
constexpr const char* whole = "def e(accum):\n    D = accum / sum(accum, axis=\"column\")\n    return D\n";
constexpr const char* item = "def e(accum):\n    D = accum - mean(accum, dim=(-2, -1))\n    return D\n";

class Workspace : public testing::TestWithParam<Case> {
 protected:
  // All candidates of all families, also where the compiler is missing.
  void check(const ContextOptions& options, bool packed) {
    const Case& c = GetParam();
    const auto dims = [&](int64_t rows, int64_t cols) {
      return c.batch > 0 ? Dims{c.batch, rows, cols} : Dims{rows, cols};
    };
    const DType out = c.dtype == u8 ? i32 : f32;
    const Tensor a = Tensor::make(c.dtype, dims(c.m, c.k)).value();
    const Tensor b = Tensor::make(c.dtype, c.transpose_b ? dims(c.n, c.k) : dims(c.k, c.n)).value();
    const Tensor d = Tensor::make(out, dims(c.m, c.n)).value();
    const TensorView b_view = c.transpose_b ? b.view().transposed() : b.view();
    GemmArguments arguments{
        .A = a.view(), .B = b_view, .out = d.view(), .epilogue = EpilogueArguments(c.epilogue, {{"D", d.view()}})};
    Context context = Context::make(options).value();
    for (const bool cached : {false, true}) {
      KernelList kernels = find_kernels(arguments, Target::host(), {}, context).value();
      ASSERT_FALSE(kernels.empty());
      for (const Kernel& kernel : kernels) {
        std::optional<PackedTensor> packed_b;
        GemmArguments wanted = arguments;
        if (packed) {
          auto made = kernel.pack(b_view);
          if (!made) continue;
          packed_b = *std::move(made);
          wanted.packed_B = &*packed_b;
          KernelList again = find_kernels(wanted, Target::host(), {}, context).value();
          for (const Kernel& same : again) {
            if (same.metadata().name != kernel.metadata().name) continue;
            EXPECT_EQ(same.metadata().workspace_bytes, same.prepare(wanted).value().workspace_size())
                << same.metadata().name << " with packed weights";
          }
          continue;
        }
        EXPECT_EQ(kernel.metadata().workspace_bytes, kernel.prepare(wanted).value().workspace_size())
            << kernel.metadata().name << (cached ? " from the cache" : "");
      }
    }
  }
};

TEST_P(Workspace, IsWhatMetadataSays) {
  // Interpreted they all run; of what is compiled every third one.
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  if (!test::commit_takes(std::stoul(name.substr(name.rfind('/') + 1)), 3)) GTEST_SKIP() << "compiled by other commits";
  const auto folder = base::TemporaryDirectory::make(testing::TempDir());
  ASSERT_TRUE(folder);
  ContextOptions options;
  options.cache_dir = folder->path() + "/cache";
  options.threads = 2;
  check(options, false);
  check(options, true);
  options.no_compiler = true;  // over the entries that the others have left
  check(options, false);
}

TEST_P(Workspace, OfInterpretedKernelsToo) {
  ContextOptions options;
  options.cache_enabled = false;
  options.no_compiler = true;
  options.threads = 3;
  check(options, false);
}

INSTANTIATE_TEST_SUITE_P(Problems, Workspace,
                         testing::Values(Case{0, 300, 130, 70, f32, false, plain}, Case{0, 64, 64, 64, f32, true, relu},
                                         Case{0, 1, 500, 300, f32, true, by_row},
                                         Case{3, 70, 90, 40, bf16, false, whole}, Case{4, 33, 65, 17, f32, true, item},
                                         Case{0, 0, 64, 16, f32, false, whole}, Case{2, 16, 0, 16, f64, false, item},
                                         Case{0, 40, 48, 900, u8, false, by_row},
                                         Case{0, 8, 16, 20000, f32, false, relu}));

}  // namespace
