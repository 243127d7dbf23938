// SPDX-License-Identifier: Apache-2.0
// Emitted visitor trees, run on the host: interpreted.h has CUTLASS's visitors as functions of one element, the host's
// compiler builds the texts over it with CUTLASS's own numbers and converters, and the oracle judges the outputs. So
// trees of all architectures run, with every kind of operand, where there is no GPU.
//   evt_run --cutlass DIR --cuda INCLUDE_DIR [--host g++] [--target sm_90a] [--random COUNT] [--seed N] [--of N]
//   [--only NAME] [--keep DIR]
// With --of the current commit picks one of each N listed cases, and the first of the random ones.
// Exit status 1 where a result is wrong, 77 where there is no CUTLASS.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/files.hpp"
#include "base/process.hpp"
#include "case.hpp"
#include "codetta/fill.hpp"
#include "codetta/kernel.hpp"
#include "differential/random_problem.hpp"
#include "example_cases.hpp"
#include "operations.hpp"
#include "support/slice.hpp"
#include "toolchain/nvcc.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::evt_tests {
namespace {

struct Options {
  std::string cutlass, host = "g++", cuda, target, random = "100", seed = "1", of = "1", only, keep;
};

// As interpreted.h declares it.
struct Call {
  int64_t m, n, batch;
  const void* accumulators;
  void** pointers;
  const void* source;
  void* destination;
  int64_t source_strides[3], destination_strides[3];
};

struct Work {
  std::string name, text;  // text: of the epilogue, for people
  GemmArguments call;
  std::vector<std::pair<std::string, TensorView>> before;
  EvtText evt;
  std::shared_ptr<void> memory;
};

// A case of the goldens in memory of the host, with small sizes.
struct Memory {
  std::deque<std::vector<std::byte>> bytes;
  TensorView view(const TensorView& like, bool output, uint64_t seed) {
    const auto [begin, end] = like.byte_range();
    auto& block = bytes.emplace_back(static_cast<size_t>(end - begin) + 64);
    auto* at = block.data() + (64 - reinterpret_cast<uintptr_t>(block.data()) % 64) % 64;
    const TensorView made =
        TensorView::make(static_cast<void*>(at), like.dtype(), like.shape(), like.strides()).value();
    output ? fill_poison(made) : fill_random(made, seed);
    return made;
  }
};
Work work_of(const Case& c) {
  auto memory = std::make_shared<Memory>();
  Work work{std::string(c.name), std::string(c.text), problem_of(c).arguments, {}, {}, memory};
  const std::vector<std::string> outputs = work.call.epilogue.epilogue()->outputs();
  uint64_t seed = 1;
  work.call.A = memory->view(work.call.A, false, seed++);
  work.call.B = memory->view(work.call.B, false, seed++);
  std::vector<NamedArgument> named;
  for (const NamedArgument& argument : work.call.epilogue.arguments()) {
    const TensorView* tensor = argument.value.tensor();
    const bool output = std::find(outputs.begin(), outputs.end(), argument.name) != outputs.end();
    named.push_back(tensor == nullptr ? argument : NamedArgument{argument.name, memory->view(*tensor, output, seed++)});
  }
  work.call.epilogue = EpilogueArguments(*work.call.epilogue.epilogue(), std::move(named));
  return work;
}

struct RandomWork {
  test::EpilogueSpec spec;
  std::unique_ptr<test::RandomProblem> problem;
};
std::optional<Work> random_work(uint64_t seed) {
  auto memory = std::make_shared<RandomWork>();
  memory->spec = test::random_epilogue_text(seed);
  memory->problem = std::make_unique<test::RandomProblem>(memory->spec, seed, false);
  test::RandomProblem& problem = *memory->problem;
  problem.aligned = seed % 3 != 0;
  problem.sizes();
  auto epilogue = Epilogue::parse(memory->spec.text, "random_" + std::to_string(seed) + ".py");
  if (!epilogue || !problem.arguments(*epilogue)) return std::nullopt;
  // Of nothing the complete kernel fills what is reduced and launches no tree.
  const TensorView &a = problem.call.A, &b = problem.call.B;
  if (a.size(a.rank() - 2) == 0 || b.size(b.rank() - 1) == 0 || (a.rank() == 3 && a.size(0) == 0)) return std::nullopt;
  return Work{"random_" + std::to_string(seed), problem.describe(), problem.call, problem.before, {}, memory};
}

const TensorView* tensor_named(const GemmArguments& call, const std::string& name) {
  for (const NamedArgument& argument : call.epilogue.arguments()) {
    if (argument.name == name) return argument.value.tensor();
  }
  return name == "D" && call.out ? &*call.out : nullptr;
}

std::string accumulator_type(const GemmArguments& call) {
  const DType a = call.A.dtype();
  return a == DType::f64 ? "double" : types::is_integer(a) ? "int32_t" : "float";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string case_text(const Work& work, bool sm80, size_t number) {
  const std::string space = "codetta_evt_" + std::to_string(number);
  std::ostringstream out;
  out.precision(17);
  out << "// " << work.name << "\n"
      << replaced(work.evt.functors, "codetta_evt", space) << "namespace case_" << number
      << " {\nusing cute::_0;\nusing cute::_1;\n";
  if (sm80)
    out << "using ThreadblockShape = cutlass::gemm::GemmShape<128, 128, 32>;\nusing WarpShape = "
           "cutlass::gemm::GemmShape<64, 64, 32>;\n";
  out << replaced(work.evt.types, "codetta_evt::", space + "::") << "extern \"C\" void run_" << number
      << "(interpreted::Call const& call) {\n";
  for (size_t i = 0; i < work.evt.renames.size(); ++i)
    out << "  char* " << work.evt.renames[i].second << " = static_cast<char*>(call.pointers[" << i << "]);\n"
        << "  int64_t " << work.evt.renames[i].second << "_offset = 0;\n";
  for (const NamedArgument& argument : work.call.epilogue.arguments()) {
    if (argument.value.tensor() != nullptr) continue;
    const auto& value = argument.value.value();
    if (const auto* real = std::get_if<double>(&value))
      out << "  double const " << argument.name << " = " << *real << ";\n";
    else
      out << "  int64_t const " << argument.name << " = " << std::get<int64_t>(value) << ";\n";
  }
  out << "  interpreted::run<" << work.evt.name << ", " << accumulator_type(work.call) << ", "
      << (sm80 ? "void" : "ElementD") << ">(" << work.evt.arguments << ", call);\n}\n}\n";
  return out.str();
}

int64_t batch_of(const GemmArguments& call) {
  int64_t batch = 1;
  for (const TensorView* factor : {&call.A, &call.B}) {
    if (factor->rank() == 3) batch = std::max(batch, factor->size(0));
  }
  return batch;
}

// Sums of products, rounded once.
template <class T>
std::vector<T> accumulators(const GemmArguments& call) {
  const TensorView &a = call.A, &b = call.B;
  const int rank = a.rank();
  const int64_t m = a.size(rank - 2), k = a.size(rank - 1), n = b.size(b.rank() - 1), batch = batch_of(call);
  const auto element = [](const TensorView& t, int64_t l, int64_t row, int64_t column) {
    const int r = t.rank();
    const int64_t at =
        (r == 3 && t.size(0) > 1 ? l * t.stride(0) : 0) + row * t.stride(r - 2) + column * t.stride(r - 1);
    return static_cast<const std::byte*>(t.data()) + at * static_cast<int64_t>(types::byte_size(t.dtype()));
  };
  std::vector<T> sums;
  for (int64_t l = 0; l < batch; ++l) {
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum +=
              types::load_f64(element(a, l, row, i), a.dtype()) * types::load_f64(element(b, l, i, column), b.dtype());
        sums.push_back(static_cast<T>(sum));
      }
    }
  }
  return sums;
}

// "{384, _1{}, _0{}}" as numbers.
void read_strides(const std::array<std::string, 3>& text, int64_t (&strides)[3]) {
  for (size_t i = 0; i < 3; ++i)
    strides[i] = text[i] == "_1{}" ? 1 : text[i] == "_0{}" || text[i].empty() ? 0 : std::stoll(text[i]);
}

void run_work(const Work& work, void (*run)(const Call&)) {
  const GemmArguments& g = work.call;
  const int rank = g.A.rank();
  Call call{};
  call.batch = batch_of(g);
  call.m = g.A.size(rank - 2);
  call.n = g.B.size(g.B.rank() - 1);
  const std::string type = accumulator_type(g);
  const auto floats = accumulators<float>(g);
  const auto doubles = type == "double" ? accumulators<double>(g) : std::vector<double>();
  const auto integers = type == "int32_t" ? accumulators<int32_t>(g) : std::vector<int32_t>();
  call.accumulators = type == "double"  ? static_cast<const void*>(doubles.data())
                      : type == "float" ? static_cast<const void*>(floats.data())
                                        : integers.data();
  std::vector<void*> pointers;
  for (const auto& [buffer, name] : work.evt.renames) pointers.push_back(tensor_named(g, buffer)->data());
  call.pointers = pointers.data();
  if (!work.evt.source.empty()) call.source = tensor_named(g, work.evt.source)->data();
  if (!work.evt.destination.empty()) call.destination = tensor_named(g, work.evt.destination)->data();
  read_strides(work.evt.c_strides, call.source_strides);
  read_strides(work.evt.d_strides, call.destination_strides);
  run(call);
}

bool build(const Options& options, const std::string& headers, const std::string& source, const std::string& library) {
  std::ofstream(source + ".h") << "#include <cuda_runtime.h>\n";
  base::ProcessRequest request;
  request.program = "/usr/bin/env";
  request.arguments = {options.host,
                       "-std=c++17",
                       "-O0",
                       "-fpermissive",
                       "-w",
                       "-shared",
                       "-fPIC",
                       "-ffp-contract=off",
                       "-x",
                       "c++",
                       "-include",
                       source + ".h",
                       "-I" CODETTA_SOURCE_DIR "/tests/evt",
                       "-I" + headers,
                       "-I" + options.cuda + "/cccl",
                       "-I" + options.cuda,
                       source,
                       "-o",
                       library};
  const char* path = std::getenv("PATH");
  request.environment = {std::string("PATH=") + (path == nullptr ? "/usr/bin:/bin" : path), "LC_ALL=C"};
  request.timeout = std::chrono::seconds(900);
  const auto done = base::run_process(request);
  if (done && done->success()) return true;
  std::printf("%s\n", done ? (done->errors + done->output).substr(0, 6000).c_str() : "no compiler");
  return false;
}

struct Counts {
  int ran = 0, refused = 0, wrong = 0, mistrusted = 0;
  std::map<int, int> codes;
};

int run_target(const Options& options, const std::string& headers, const std::string& target,
               const std::string& folder) {
  const bool sm80 = target == "sm_80";
  std::vector<Work> all;
  Counts counts;
  const auto add = [&](Work work, EvtOptions asked) {
    if (!options.only.empty() && options.only != work.name) return;
    auto text = emit_evt(work.call, asked);
    if (!text) {
      ++counts.refused;
      ++counts.codes[text.error().code()];
      if (!options.only.empty()) std::printf("%s\n%s\n", work.text.c_str(), text.error().render().c_str());
      return;
    }
    work.evt = *std::move(text);
    all.push_back(std::move(work));
  };
  const uint64_t of = std::max<uint64_t>(std::stoull(options.of), 1), slice = of > 1 ? test::commit_slice() : 0;
  uint64_t number = 0;
  for (const auto& list :
       {std::vector<Case>(all_cases().begin(), all_cases().end()), operation_cases(), example_cases()}) {
    for (const Case& c : list) {
      if ((number++ + slice) % of != 0) continue;
      Case small = c;
      const std::string problem = std::string(c.problem) + " K=32 M=128";
      const bool is_example = c.name.starts_with("example_");
      if (!is_example) small.problem = problem;
      add(work_of(small), options_of(small, "cutlass:" + target));
    }
  }
  // Of a slice: some of those that the full suite runs.
  const uint64_t seed = of > 1 ? 1000 + slice % 900 : std::stoull(options.seed);
  if (of > 1) std::printf("random cases from seed %llu on\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < std::stoull(options.random); ++i) {
    auto work = random_work(seed + i);
    if (!work) continue;
    EvtOptions asked;
    asked.target = Target::parse("cutlass:" + target).value();
    asked.deterministic = !sm80 && i % 2 == 0;
    add(*std::move(work), asked);
  }
  constexpr size_t at_once = 60;
  for (size_t begin = 0; begin < all.size(); begin += at_once) {
    const size_t end = std::min(begin + at_once, all.size());
    const std::string name =
        (options.keep.empty() ? folder : options.keep) + "/" + target + "_" + std::to_string(begin);
    std::ofstream source(name + ".cpp", std::ios::binary);
    source << "#include \"interpreted.h\"\n";
    for (size_t i = begin; i < end; ++i) source << case_text(all[i], sm80, i);
    source.close();
    if (!build(options, headers, name + ".cpp", name + ".so")) return std::printf("FAILED %s\n", name.c_str()), 1;
    void* handle = dlopen((name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return std::printf("FAILED %s: %s\n", name.c_str(), dlerror()), 1;
    for (size_t i = begin; i < end; ++i) {
      const Work& work = all[i];
      run_work(work, reinterpret_cast<void (*)(const Call&)>(dlsym(handle, ("run_" + std::to_string(i)).c_str())));
      VerifyOptions how;
      how.poisoned = true;
      how.before = work.before;
      const auto report = verify(work.call, Target::host(), how);
      ++counts.ran;
      if (report && report->verdict == VerifyReport::Verdict::Pass) continue;
      const bool mistrusted = report && report->verdict == VerifyReport::Verdict::Mistrusted;
      ++(mistrusted ? counts.mistrusted : counts.wrong);
      if (mistrusted && options.only.empty()) continue;
      std::printf("%s %s\n%s\n%s\n", mistrusted ? "mistrusted" : "WRONG", work.name.c_str(), work.text.c_str(),
                  report ? report->text.c_str() : report.error().render().c_str());
      if (!options.only.empty()) std::printf("%s\n%s\n", work.evt.types.c_str(), work.evt.arguments.c_str());
    }
  }
  std::printf("%s: %d ran, %d wrong, %d mistrusted, %d refused:", target.c_str(), counts.ran, counts.wrong,
              counts.mistrusted, counts.refused);
  for (const auto& [code, count] : counts.codes) std::printf(" E%04d %d", code, count);
  std::printf("\n");
  return counts.wrong == 0 ? 0 : 1;
}

int run(const Options& options) {
  const auto headers = toolchain::find_cutlass(options.cutlass, 402, 407);
  if (!headers || !std::ifstream(options.cuda + "/cuda_runtime.h").good()) {
    std::printf("SKIPPED: %s\n", headers ? "no cuda_runtime.h" : headers.error().message().c_str());
    return 77;
  }
  const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-evt-");
  if (!folder) return 1;
  int failed = 0;
  for (const std::string target : {"sm_80", "sm_90a", "sm_100a"}) {
    if (options.target.empty() || options.target == target)
      failed += run_target(options, headers->folder, target, folder->path());
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace codetta::evt_tests

int main(int argc, char** argv) {
  codetta::evt_tests::Options options;
  const std::map<std::string, std::string*> known{
      {"--cutlass", &options.cutlass}, {"--host", &options.host},     {"--cuda", &options.cuda},
      {"--target", &options.target},   {"--random", &options.random}, {"--seed", &options.seed},
      {"--of", &options.of},           {"--only", &options.only},     {"--keep", &options.keep}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end()) return std::printf("unknown option %s\n", argv[i]), 2;
    *option->second = argv[i + 1];
  }
  return codetta::evt_tests::run(options);
}
