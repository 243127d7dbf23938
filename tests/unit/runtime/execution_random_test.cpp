// SPDX-License-Identifier: Apache-2.0
// Random programs through Execution, interpreted, against direct evaluation element by element.
#include "random_program.hpp"

namespace codetta::runtime::test {
namespace {

class CountingPool final : public ThreadPool {
 public:
  explicit CountingPool(int threads) : threads_(threads), inner_(make_thread_pool(threads)) {}
  [[nodiscard]] int size() const override { return threads_; }
  void run(int tasks, void (*fn)(void*, int), void* ctx) override { inner_->run(tasks, fn, ctx); }

 private:
  int threads_;
  std::unique_ptr<ThreadPool> inner_;
};

TEST(RandomPrograms, AgreeWithDirectEvaluation) {
  CountingPool one(1), two(2);
  const int count = CODETTA_TEST_FULL ? 20000 : 600;
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937 gen(static_cast<unsigned>(seed));
    Sizes sizes;
    sizes.batch = 1 + gen() % 3;
    sizes.m = 1 + gen() % (seed % 7 == 0 ? 70 : 9);
    sizes.n = 1 + gen() % (seed % 5 == 0 ? 150 : 26);
    sizes.k = gen() % 5;
    package::CpuGemmConfig config;
    config.family = package::CpuFamily::Convert;
    config.tile_rows = 12;
    config.tile_cols = 64;
    Made made(ProgramMaker(gen, sizes).run(), sizes, config, gen, true);
    const auto wanted = made.expected();
    auto execution = made.prepare(seed % 2 == 0 ? static_cast<ThreadPool&>(one) : two);
    ASSERT_TRUE(execution.has_value()) << seed << execution.error().render();
    EXPECT_TRUE(execution->interpreted());
    ASSERT_TRUE(execution->run());
    const std::string difference = made.differences(wanted);
    ASSERT_EQ(difference, "") << "seed " << seed << " sizes " << sizes.batch << " " << sizes.m << " " << sizes.n << " "
                              << sizes.k;
    ASSERT_TRUE(execution->run());  // again: nothing is left over from the first
    ASSERT_EQ(made.differences(wanted), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace codetta::runtime::test
