// SPDX-License-Identifier: Apache-2.0
// Programs take the memory that their plan says, measured by an allocator that counts; sharing it changes no result.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "codetta/codetta.hpp"
#include "types/dim.hpp"

namespace codetta {
namespace {

class CountingAllocator : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    const size_t live = live_ += bytes;
    peak_ = std::max(peak_.load(), live);
    ++calls_;
    return default_allocator().allocate(bytes, alignment);
  }
  void free(void* memory, size_t bytes, size_t alignment) override {
    live_ -= bytes;
    default_allocator().free(memory, bytes, alignment);
  }
  void reset() { peak_ = live_.load(), calls_ = 0; }
  [[nodiscard]] size_t peak() const { return peak_; }
  [[nodiscard]] size_t calls() const { return calls_; }

 private:
  std::atomic<size_t> live_{0}, peak_{0}, calls_{0};
};

// What `codetta emit --what=memory` says of pool 0, with a value for batch.
int64_t planned_bytes(const CompiledProgram& program, int64_t batch) {
  const std::string text = program.emit(Stage::Memory).value();
  const std::string before = "pool 0: device 0, ";
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return 0;
  const size_t end = text.find(" bytes", begin);
  const auto bytes = types::parse_dim(text.substr(begin + before.size(), end - begin - before.size()));
  return bytes->evaluate(std::map<std::string, int64_t>{{"batch", batch}}).value_or(-1);
}

class ProgramMemory : public ::testing::TestWithParam<bool> {
 protected:
  ProgramMemory()
      : context_(
            Context::make({.cache_enabled = false, .no_compiler = GetParam(), .threads = 2, .allocator = &counting_})
                .value()) {}

  CompiledProgram compiled(const std::string& text) {
    return codetta::compile(Program::parse(text, "p.py").value(), Target::host(), {{"batch", 32}}, context_).value();
  }
  // Bytes and calls of one prepare() and two runs.
  size_t measured(const CompiledProgram& program, const std::vector<NamedArgument>& arguments) {
    counting_.reset();
    auto execution = program.prepare(arguments);
    EXPECT_TRUE(execution) << execution.error().render();
    if (!execution) return 0;
    const size_t calls = counting_.calls();
    EXPECT_TRUE(execution->run());
    EXPECT_TRUE(execution->run());
    EXPECT_EQ(counting_.calls(), calls) << "run() allocates";
    return counting_.peak();
  }
  static Tensor tensor(int64_t rows, int64_t cols, uint64_t seed) {
    Tensor made = Tensor::make(f32, {rows, cols}).value();
    fill_random(made.view(), seed);
    return made;
  }

  CountingAllocator counting_;
  Context context_;
};

TEST_P(ProgramMemory, AChainTakesWhatThePlanSays) {
  std::string text = "def f(x: f32[\"batch\", 64], w: f32[64, 64]):\n    a0 = relu(x @ w)\n";
  const CompiledProgram one = compiled(text + "    return a0\n");
  for (int i = 1; i < 7; ++i) text += "    a" + std::to_string(i) + " = relu(a" + std::to_string(i - 1) + " @ w)\n";
  const CompiledProgram chain = compiled(text + "    return a6\n");
  const Tensor w = tensor(64, 64, 3);
  EXPECT_EQ(planned_bytes(one, 100), 0);
  for (const int64_t batch : {1, 7, 300}) {
    const Tensor x = tensor(batch, 64, 4), y = tensor(batch, 64, 5);
    // Kernels of equal products need equal workspaces, so what is left are the temporaries.
    const size_t engine = measured(one, {{"x", x.view()}, {"w", w.view()}, {"a0", y.view()}});
    const size_t all = measured(chain, {{"x", x.view()}, {"w", w.view()}, {"a6", y.view()}});
    EXPECT_EQ(planned_bytes(chain, batch), 2 * batch * 64 * 4) << "one is read while the next is written";
    EXPECT_EQ(all - engine, static_cast<size_t>(planned_bytes(chain, batch))) << batch;
  }
}

// t is taken over by u, and h by nothing: it is read as a factor. A program that returns them takes over nothing.
TEST_P(ProgramMemory, TakingOverAnOperandChangesNoBit) {
  const std::string body =
      "def f(x: f32[\"batch\", 64], z: f32[\"batch\", 64], v: f32[64, 64], w: f32[64, 64]):\n    t = z @ v\n    u = "
      "tanh(x @ w) + t\n"
      "    h = relu(u @ v)\n    y = h @ w + u\n";
  const CompiledProgram shared = compiled(body + "    return y\n"), apart = compiled(body + "    return y, t, u, h\n");
  EXPECT_NE(shared.emit(Stage::Memory).value().find("in place: 1"), std::string::npos)
      << shared.emit(Stage::Memory).value();
  EXPECT_EQ(apart.emit(Stage::Memory).value().find("in place: 1"), std::string::npos);
  for (const int64_t batch : {1, 33, 128}) {
    const Tensor x = tensor(batch, 64, 1), z = tensor(batch, 64, 4), v = tensor(64, 64, 2), w = tensor(64, 64, 3);
    std::vector<Tensor> out;
    for (int i = 0; i < 5; ++i) {
      out.push_back(Tensor::make(f32, {batch, 64}).value());
      fill_poison(out.back().view());
    }
    const std::vector<NamedArgument> inputs{{"x", x.view()}, {"z", z.view()}, {"v", v.view()}, {"w", w.view()}};
    std::vector<NamedArgument> first = inputs, second = inputs;
    first.push_back({"y", out[0].view()});
    second.insert(second.end(),
                  {{"y", out[1].view()}, {"t", out[2].view()}, {"u", out[3].view()}, {"h", out[4].view()}});
    EXPECT_EQ(planned_bytes(shared, batch), 2 * batch * 64 * 4);
    measured(shared, first);
    measured(apart, second);
    EXPECT_EQ(std::memcmp(out[0].data(), out[1].data(), out[0].byte_size()), 0) << batch;
  }
}

// What finds out which kernels run is gone before the watched run has its workspace.
TEST_P(ProgramMemory, BisectHoldsOneWorkspace) {
  const Program program =
      Program::parse(
          "def f(x: f32[\"batch\", 64], w: f32[64, 64]):\n    a = tanh(x @ w)\n    b = softmax(a @ w)\n"
          "    y = b @ w + a\n    return y\n",
          "p.py")
          .value();
  const Tensor x = tensor(512, 64, 1), w = tensor(64, 64, 2), y = Tensor::make(f32, {512, 64}).value();
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"w", w.view()}, {"y", y.view()}};
  const size_t one = measured(codetta::compile(program, Target::host(), {{"batch", 512}}, context_).value(), arguments);
  ASSERT_GT(one, size_t{512} * 64 * 4);
  counting_.reset();
  const auto found = bisect(program, arguments, Target::host(), {}, {}, context_);
  ASSERT_TRUE(found) << found.error().render();
  EXPECT_EQ(found->first_wrong, -1);
  EXPECT_LT(counting_.peak(), one + one / 2);
}

// Memory of a size that a turn computes is that of the largest turn, however many there are.
TEST_P(ProgramMemory, TurnsOfALoopShareTheMemoryOfTheirSizes) {
  const CompiledProgram program = compiled(
      "def more(i, last, m, x, y):\n    return i < last\n\n"
      "def step(i, last, m, x, y):\n"
      "    k = minimum(i, 4) * m\n"
      "    z = softmax(x[:k] @ transpose(x, 0, 1))\n"
      "    return i + 1, last, m, x, y + sum(z @ x, dim=0)\n\n"
      "def f(last: i64[()], m: i64[()], x: f32[\"batch\", 64]):\n"
      "    i, a, b, c, y = while_loop(more, step, 0, last, m, x, zeros(1, 64))\n    return y\n");
  constexpr int64_t rows = 256;
  const Tensor x = tensor(rows, 64, 1), y = Tensor::make(f32, {1, 64}).value();
  const auto peak = [&](int64_t turns, int64_t m) {
    const Tensor last = Tensor::make(i64, {}).value(), factor = Tensor::make(i64, {}).value();
    std::memcpy(last.data(), &turns, sizeof turns);
    std::memcpy(factor.data(), &m, sizeof m);
    fill_poison(y.view());
    counting_.reset();
    auto execution = program.prepare({{"last", last.view()}, {"m", factor.view()}, {"x", x.view()}, {"y", y.view()}});
    EXPECT_TRUE(execution && execution->run());
    return static_cast<int64_t>(counting_.peak());
  };
  const int64_t few = peak(5, 10), many = peak(60, 10), large = peak(5, 60);
  EXPECT_EQ(few, many);
  // Rows of z, four times as many as m says, of which no more than three forms lie there at a time.
  const int64_t more_rows = 4 * (60 - 10) * rows * 4;
  EXPECT_GE(large - few, more_rows);
  EXPECT_LE(large - few, 3 * more_rows);
}

INSTANTIATE_TEST_SUITE_P(AllForms, ProgramMemory, ::testing::Bool(),
                         [](const auto& form) { return form.param ? "Interpreted" : "Compiled"; });

}  // namespace
}  // namespace codetta
