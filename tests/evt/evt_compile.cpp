// SPDX-License-Identifier: Apache-2.0
// nvcc's opinion of emitted visitor trees, with CUTLASS's own headers and without a GPU. By default types, arguments
// and the collective around them, all cases of an architecture in one translation unit; --kernels compiles whole
// kernels.
//   evt_compile [--cutlass DIR] [--nvcc FILE] [--kernels NAME,NAME|all] [--only NAME] [--target sm_90a] [--keep DIR]
//   [--of N]: of each N cases in a row the one that the current commit picks
//   evt_compile --host g++ --cuda INCLUDE_DIR [--cutlass DIR] [--tiles all] ...
// The second form asks the host's compiler, which takes types, arguments, static assertions and the host's functions,
// with the headers of CUDA's runtime and no toolkit; with --tiles all, or a word of a problem, instead every tile that
// is taken for Sm80. Exit status 77 where there is no compiler, no CUTLASS or no header.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/files.hpp"
#include "base/process.hpp"
#include "case.hpp"
#include "example_cases.hpp"
#include "operations.hpp"
#include "support/slice.hpp"
#include "toolchain/nvcc.hpp"

namespace codetta::evt_tests {
namespace {

struct Options {
  std::string cutlass, nvcc, host, cuda, kernels, only, target, keep, tiles, of = "1";
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// The aliases and functions that a case's text takes from whoever uses it.
std::string case_text(const Case& c, const EvtText& text, bool sm80, int number) {
  const std::string space = "codetta_evt_" + std::to_string(number);
  std::ostringstream out;
  out << "// " << c.name << "\n"
      << replaced(text.functors, "codetta_evt", space) << "namespace case_" << number
      << " {\nusing cute::_0;\nusing cute::_1;\n";
  if (sm80)
    out << "using ThreadblockShape = cutlass::gemm::GemmShape<128, 128, 32>;\nusing WarpShape = "
           "cutlass::gemm::GemmShape<64, 64, 32>;\n";
  const std::string types = replaced(text.types, "codetta_evt::", space + "::");
  out << types;
  for (const auto& [buffer, name] : text.renames)
    out << "extern char* " << name << ";\nextern int64_t " << name << "_offset;\n";
  std::set<std::string> numbers;
  const std::regex number_use("\\(([a-z_]\\w*)\\)\\}\\}");
  for (std::sregex_iterator it(text.arguments.begin(), text.arguments.end(), number_use), end; it != end; ++it)
    numbers.insert((*it)[1]);
  for (const std::string& name : numbers) out << "extern float " << name << ";\n";
  out << "inline " << text.name << "::Arguments arguments() {\n  return " << text.arguments << ";\n}\n";
  // What functors compute is only looked at where they are used: here in full.
  std::set<std::string> seen;
  const std::regex compute("Compute<" + space + "::(\\w+), ([\\w:]+), ([\\w:]+), ");
  for (std::sregex_iterator it(types.begin(), types.end(), compute), end; it != end; ++it) {
    if (!seen.insert((*it)[1].str() + (*it)[3].str()).second) continue;
    out << "__global__ void probe_" << seen.size() << "(" << (*it)[3] << "* x) {\n  cutlass::Array<" << (*it)[3]
        << ", 4>& a = *reinterpret_cast<cutlass::Array<" << (*it)[3] << ", 4>*>(x);\n  a = codetta_probe<" << space
        << "::" << (*it)[1] << ">(a);\n}\n";
  }
  if (!sm80) {
    out << "using Collective = typename cutlass::epilogue::collective::CollectiveBuilder<Arch, "
           "cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,\n"
           "  cutlass::epilogue::collective::EpilogueTileAuto, Accumulator"
        << (std::string(c.problem).find("A=i8") != std::string::npos ? "I" : "F")
        << ", float, ElementC, StrideC,\n"
           "  128 / cutlass::sizeof_bits<cute::conditional_t<cute::is_void_v<ElementC>, ElementD, ElementC>>::value, "
           "ElementD, StrideD, 128 / "
           "cutlass::sizeof_bits<ElementD>::value, Schedule, "
        << text.name << ">::CollectiveOp;\n"
        << "static_assert(Collective::DispatchPolicy::StagesC == " << text.stages_c
        << " && Collective::DispatchPolicy::StagesD == " << text.stages_d << ");\n"
        << "static_assert(Collective::DispatchPolicy::ReuseSmemC == " << (text.reuses_c ? "true" : "false") << ");\n"
        << "static_assert(cute::size<0>(cute::product_each(cute::shape(typename Collective::EpilogueTile{}))) == "
        << text.epilogue_tile_m << ");\n"
        << "static_assert(cute::size<1>(cute::product_each(cute::shape(typename Collective::EpilogueTile{}))) == "
        << text.epilogue_tile_n << ");\n"
        << "static_assert(sizeof(typename Collective::SharedStorage) >= " << text.shared_bytes
        << " && sizeof(typename Collective::SharedStorage) <= " << text.shared_bytes + 4096 << ");\n";
  }
  out << "static_assert(sizeof(" << text.name << "::Arguments) > 0);\n}\n";
  return out.str();
}

std::string preamble(const std::string& target) {
  if (target == "sm_80") {
    return "#include \"cutlass/cutlass.h\"\n#include \"cute/tensor.hpp\"\n#include \"cutlass/gemm/gemm.h\"\n"
           "#include \"cutlass/gemm/kernel/default_gemm_universal_with_visitor.h\"\n#include "
           "\"cutlass/epilogue/threadblock/fusion/visitors.hpp\"\n";
  }
  const bool sm100 = target == "sm_100a";
  return std::string(
             "#include \"cutlass/cutlass.h\"\n#include \"cute/tensor.hpp\"\n#include "
             "\"cutlass/epilogue/collective/collective_builder.hpp\"\n"
             "using Arch = cutlass::arch::") +
         (sm100 ? "Sm100" : "Sm90") +
         ";\nusing TileShape = cute::Shape<cute::Int<128>, cute::Int<128>, cute::Int<64>>;\n" +
         "using ClusterShape = cute::Shape<cute::Int<1>, cute::Int<1>, cute::Int<1>>;\nusing AccumulatorF = "
         "float;\nusing AccumulatorI = int32_t;\n" +
         "using Schedule = cutlass::epilogue::" + (sm100 ? "TmaWarpSpecialized1Sm" : "TmaWarpSpecializedCooperative") +
         ";\n";
}

// Calls a functor with as many operands as it takes.
const char* probe =
    "#include <type_traits>\n"
    "template <template <class> class F, class A>\nCUTLASS_DEVICE A codetta_probe(A a) {\n"
    "  using E = typename A::Element;\n"
    "  if constexpr (std::is_invocable_v<F<E>, E>) return F<A>{}(a);\n"
    "  else if constexpr (std::is_invocable_v<F<E>, E, E>) return F<A>{}(a, a);\n"
    "  else return F<A>{}(a, a, a);\n}\n";

// Whether the compiler takes it.
bool compiles(const Options& options, const toolchain::CutlassHeaders& headers, const std::string& label,
              const std::string& source, std::vector<std::string> flags) {
  const auto folder = base::TemporaryDirectory::make("/tmp", "codetta-evt-");
  if (!folder) return false;
  const std::string file = (options.keep.empty() ? folder->path() : options.keep) + "/" + label + ".cu";
  std::ofstream(file, std::ios::binary) << source;
  base::ProcessRequest request;
  request.program = options.host.empty() ? options.nvcc : "/usr/bin/env";
  if (options.host.empty()) {
    request.arguments = std::move(flags);
    for (const std::string& flag : {"-I" + headers.folder, std::string("-o"), folder->path() + "/out", file})
      request.arguments.push_back(flag);
  } else {
    request.arguments = {options.host,
                         "-std=c++17",
                         "-fsyntax-only",
                         "-fpermissive",
                         "-w",
                         "-x",
                         "c++",
                         "-include",
                         CODETTA_SOURCE_DIR "/tests/evt/host_prelude.h",
                         "-I" + headers.folder,
                         "-I" + options.cuda + "/cccl",
                         "-I" + options.cuda,
                         file};
  }
  const char* path = std::getenv("PATH");
  request.environment = {std::string("PATH=") + (path == nullptr ? "/usr/bin:/bin" : path), "LC_ALL=C",
                         "TMPDIR=" + folder->path()};
  request.timeout = std::chrono::seconds(900);
  const auto done = base::run_process(request);
  const bool good = done && done->success();
  std::printf("%s %s, CUTLASS %s: %.1f s\n", good ? "ok    " : "FAILED", label.c_str(), headers.version.c_str(),
              done ? done->seconds : 0.0);
  if (!good && done) std::printf("%s\n", (done->errors + done->output).substr(0, 6000).c_str());
  std::fflush(stdout);
  return good;
}

// The types of a whole kernel of Sm80 in a namespace of its own, functors aside.
std::string kernel_types(const CutlassSource& kernel, const std::string& space) {
  const std::string last = "::GemmKernel;\n";
  const size_t begin = kernel.source.find("using ThreadblockShape"), end = kernel.source.find(last, begin);
  if (begin == std::string::npos || end == std::string::npos) return "static_assert(false, \"no kernel\");\n";
  return "namespace " + space + " {\nusing cute::_0;\nusing cute::_1;\n" +
         kernel.source.substr(begin, end + last.size() - begin) +
         "static_assert(sizeof(typename GemmKernel::SharedStorage) <= 163 * 1024);\n";
}
std::string functors_of(const CutlassSource& kernel) {
  const size_t begin = kernel.source.find("namespace codetta_evt"), end = kernel.source.find("\nnamespace {");
  return begin < end ? kernel.source.substr(begin, end - begin) : std::string();
}

// Kernels of Sm80 whose D is of any type and rows of any width: what hands accumulators over for them has forms.
std::string stores_text() {
  std::string text;
  int number = 0;
  for (const char* problem : {"A=f16", "A=i8 b_columns", "A=f64"}) {
    for (const char* type : {"f32", "f16", "bf16", "f64", "i8", "u16", "i32", "i64", "f8e4m3", "f8e5m2"}) {
      for (const char* rows : {"", ":ld=388", ":ld=386", ":ld=385"}) {
        const std::string arguments = std::string("D=") + type + "[M,N]" + rows;
        const Case c{"store", problem, arguments, "def f(accum):\n    D = accum\n    return D\n"};
        const auto kernel = emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:sm_80"), "kernel");
        if (!kernel) continue;
        const std::string space = "store_" + std::to_string(number++);
        text += "// " + std::string(problem) + " " + arguments + "\n" +
                replaced(functors_of(*kernel), "codetta_evt", "codetta_evt_" + space) +
                replaced(kernel_types(*kernel, space), "codetta_evt::", "codetta_evt_" + space + "::") + "}\n";
      }
    }
  }
  return text;
}

// The kernels' types with every tile that is taken, of each kind of product: all of A's and B's tiles is copied, each
// element once, so are D's stored, by all lanes, and what a block needs of shared memory is there.
int check_tiles(const Options& options, const toolchain::CutlassHeaders& headers) {
  int failed = 0;
  for (const auto& [problem, stored] :
       std::vector<std::pair<std::string, std::string>>{{"A=f16", "D=f32[M,N]"},
                                                        {"A=f16 b_columns", "D=f16[M,N]"},
                                                        {"A=f32 tf32", "D=f32[M,N]"},
                                                        {"A=f32 tf32 b_columns", "D=f32[M,N]"},
                                                        {"A=f64", "D=f64[M,N]"},
                                                        {"A=f64 b_columns", "D=f32[M,N]"},
                                                        {"A=i8 b_columns", "D=i8[M,N]"},
                                                        {"A=u8 b_columns", "D=i32[M,N]"}}) {
    if (options.tiles != "all" && problem.find(options.tiles) == std::string::npos) continue;
    const Case c{"tile", problem, stored, "def f(accum):\n    D = accum\n    return D\n"};
    std::ostringstream source;
    source << preamble("sm_80");
    int count = 0;
    for (int m = 64; m <= 256; m += 64) {
      for (int n = 16; n <= 256; n += 16) {
        for (int k = 16; k <= 128; k *= 2) {
          EvtOptions asked = options_of(c, "cutlass:sm_80");
          asked.tile = {m, n, k};
          const auto kernel = emit_cutlass(problem_of(c).arguments, asked, "kernel");
          if (!kernel) continue;
          if (count == 0) source << functors_of(*kernel);
          source
              << kernel_types(*kernel, "tile_" + std::to_string(m) + "_" + std::to_string(n) + "_" + std::to_string(k))
              << "template <class Map> constexpr int copied = Map::Iterations::kCount * GemmKernel::kThreadCount * "
                 "Map::kElementsPerAccess;\n"
              << "static_assert(copied<typename GemmKernel::Mma::IteratorA::ThreadMap> == " << m * k << ");\n"
              << "static_assert(copied<typename GemmKernel::Mma::IteratorB::ThreadMap> == " << n * k << ");\n"
              << "static_assert(OutputTileThreadMap::Detail::kAccessWidth * OutputTileThreadMap::Detail::kAccessRows "
                 "== 32);\n"
              << "static_assert(OutputTileThreadMap::Iterations::kRow * OutputTileThreadMap::Detail::kAccessRows * "
                 "OutputTileThreadMap::Detail::kWarpsRemainingForRows == 8);\n"
              << "static_assert(OutputTileThreadMap::Iterations::kColumn * OutputTileThreadMap::Detail::kAccessWidth "
                 "* OutputTileThreadMap::kElementsPerAccess == "
              << n << ");\n}\n";
          ++count;
        }
      }
    }
    if (count == 0) return std::printf("FAILED %s: no tile is taken\n", problem.c_str()), 1;
    std::string label = "tiles_" + std::to_string(count) + "_" + problem;
    std::replace_if(
        label.begin(), label.end(), [](char l) { return l == ' ' || l == '='; }, '_');
    failed += compiles(options, headers, label, source.str(), {}) ? 0 : 1;
  }
  return failed == 0 ? 0 : 1;
}

bool named(const std::string& list, std::string_view name) {
  return list == "all" || ("," + list + ",").find("," + std::string(name) + ",") != std::string::npos;
}

int run(Options options) {
  const char* configured = std::getenv("CODETTA_CUTLASS_DIR");
  if (options.cutlass.empty() && configured != nullptr) options.cutlass = configured;
  const auto headers = toolchain::find_cutlass(options.cutlass, 402, 407);
  const auto nvcc = options.nvcc.empty() ? toolchain::find_nvcc({.path = "/usr/local/bin:/usr/bin:/bin"})
                                         : Result<std::string>(options.nvcc);
  if (!headers || (options.host.empty() && !nvcc)) {
    std::printf("SKIPPED: %s\n", (headers ? nvcc.error() : headers.error()).message().c_str());
    return 77;
  }
  if (!options.host.empty() && !std::ifstream(options.cuda + "/cuda_runtime.h").good()) {
    std::printf("SKIPPED: there is no cuda_runtime.h in %s\n", options.cuda.c_str());
    return 77;
  }
  if (!options.host.empty() && !options.tiles.empty()) return check_tiles(options, *headers);
  if (nvcc) options.nvcc = *nvcc;
  int failed = 0;
  const uint64_t of = std::max<uint64_t>(std::stoull(options.of), 1), slice = of > 1 ? test::commit_slice() : 0;
  const std::array<std::string, 3> targets{"sm_80", "sm_90a", "sm_100a"};
  if (of > 1 && options.target.empty()) {  // CUTLASS's headers take most of the time: one target a commit
    options.target = targets[slice / of % targets.size()];
    std::printf("of three targets %s\n", options.target.c_str());
  }
  for (const std::string& target : targets) {
    if (!options.target.empty() && options.target != target) continue;
    std::string source = preamble(target) + probe;
    int number = 0, count = 0;
    std::vector<Case> cases(all_cases().begin(), all_cases().end());
    cases.insert(cases.end(), operation_cases().begin(), operation_cases().end());
    cases.insert(cases.end(), example_cases().begin(), example_cases().end());
    for (const Case& c : cases) {
      if ((static_cast<uint64_t>(number++) + slice) % of != 0) continue;
      if (!options.only.empty() && !named(options.only, c.name)) continue;
      const auto text = emit_evt(problem_of(c).arguments, options_of(c, "cutlass:" + target));
      if (!text) continue;  // the refusal is a golden text
      source += case_text(c, *text, target == "sm_80", number);
      ++count;
      if (!options.kernels.empty() && named(options.kernels, c.name)) {
        const auto kernel =
            emit_cutlass(problem_of(c).arguments, options_of(c, "cutlass:" + target), std::string(c.name));
        if (!kernel) {
          std::printf("FAILED %s: %s\n", std::string(c.name).c_str(), kernel.error().render().c_str());
          ++failed;
          continue;
        }
        std::vector<std::string> flags = kernel->flags;
        flags.insert(flags.end(), {"-shared", "-Xcompiler=-fPIC"});
        failed += compiles(options, *headers, std::string(c.name) + "_" + target, kernel->source, flags) ? 0 : 1;
      }
    }
    if (target == "sm_80" && options.only.empty()) source += stores_text();
    if (options.kernels.empty())
      failed += compiles(options, *headers, "trees_" + target + "_" + std::to_string(count), source,
                         {"-std=c++17", "-w", "--expt-relaxed-constexpr", "-arch=" + target, "-ptx"})
                    ? 0
                    : 1;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace codetta::evt_tests

int main(int argc, char** argv) {
  codetta::evt_tests::Options options;
  const std::map<std::string, std::string*> known{{"--cutlass", &options.cutlass}, {"--nvcc", &options.nvcc},
                                                  {"--host", &options.host},       {"--cuda", &options.cuda},
                                                  {"--kernels", &options.kernels}, {"--only", &options.only},
                                                  {"--target", &options.target},   {"--keep", &options.keep},
                                                  {"--tiles", &options.tiles},     {"--of", &options.of}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end()) return std::printf("unknown option %s\n", argv[i]), 2;
    *option->second = argv[i + 1];
  }
  return codetta::evt_tests::run(options);
}
