// SPDX-License-Identifier: Apache-2.0
// Emitted CUTLASS kernels on a GPU, beside Codetta's own: built where nvcc and CUTLASS are, run where the device is.
//   evt_gpu --build FOLDER --cutlass DIR [--target sm_90a] [--jobs N]   one library a case and schedule
//   evt_gpu --run FOLDER [--target sm_90a]                   correctness against the oracle, then speed; a table comes
//   last; --only NAME,...: these cases; --tiles all|MxN,...: each of these tiles that is taken; --cluster MxN: of
//   blocks; both check correctness alone
// Exit status 1 where a result is wrong or nvcc refused a source, 77 where there is no device or no CUTLASS.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "case.hpp"
#include "codetta/codetta.hpp"

namespace codetta::evt_tests {
namespace {

bool listed(const std::string& list, std::string_view name) {
  return ("," + list + ",").find("," + std::string(name) + ",") != std::string::npos;
}

struct Options {
  std::string build, run, cutlass, target = "sm_90a", jobs = "1", only, tiles, cluster;
  [[nodiscard]] bool takes(const Case& c) const { return only.empty() || listed(only, c.name); }
};

struct Variant {
  EvtSchedule schedule;
  std::array<int, 3> tile;
  std::string suffix;
};
std::vector<Variant> tiles_of(const Options& options, const Case& c) {
  std::vector<Variant> result;
  const int deep = 128 / static_cast<int>(dtype_size(problem_of(c).arguments.A.dtype()));
  const bool sm80 = options.target == "sm_80";
  for (const int m : {64, 128, 256}) {
    for (int n = 16; n <= 256; n += 16) {
      const std::string suffix = std::to_string(m) + "x" + std::to_string(n);
      if (options.tiles != "all" && !listed(options.tiles, suffix)) continue;
      const EvtSchedule schedule = !sm80 && m < 128 ? EvtSchedule::TmaWarpSpecializedPingpong : EvtSchedule::Auto;
      result.push_back({schedule, {m, n, sm80 ? std::max(deep / 2, 16) : deep}, suffix});
    }
  }
  return result;
}
std::vector<Variant> variants(const Options& options, const Case& c) {
  if (!options.tiles.empty()) return tiles_of(options, c);
  if (options.target == "sm_90a")
    return {{EvtSchedule::TmaWarpSpecializedCooperative, {128, 128, 64}, "coop"},
            {EvtSchedule::TmaWarpSpecializedPingpong, {64, 128, 64}, "ping"}};
  return {{EvtSchedule::Auto, {}, "auto"}};
}
// Large enough that a launch does not count; cases with strides of their own keep theirs.
constexpr const char* large = " M=4096 N=4096 K=4096";

std::string library_of(const std::string& folder, const Case& c, const Options& options, const Variant& variant) {
  return folder + "/" + std::string(c.name) + "_" + options.target + "_" + variant.suffix + options.cluster + ".so";
}

// How long nvcc took for a library, beside it: seconds as text.
std::string seconds_of(const std::string& library) { return library + ".seconds"; }
// What nvcc said of a source that it refused.
std::string refusal_of(const std::string& library) { return library + ".refused"; }

int build_all(const Options& options) {
  std::filesystem::create_directories(options.build);
  std::vector<std::pair<Case, Variant>> work;
  for (const Case& c : all_cases()) {
    if (!options.takes(c)) continue;
    for (const Variant& variant : variants(options, c)) work.emplace_back(c, variant);
  }
  std::atomic<size_t> next = 0;
  std::atomic<int> failed = 0, missing = 0;
  const auto build = [&] {
    for (size_t i = next++; i < work.size(); i = next++) {
      const auto& [c, variant] = work[i];
      EvtOptions evt = options_of(c, "cutlass:" + options.target);
      evt.schedule = variant.schedule;
      evt.tile = variant.tile;
      if (std::array<int, 3> cluster{0, 0, 1};
          std::sscanf(options.cluster.c_str(), "%dx%d", &cluster[0], &cluster[1]) == 2)
        evt.cluster = cluster;
      const std::string path = library_of(options.build, c, options, variant);
      const auto built = build_cutlass(problem_of(c).arguments, evt,
                                       {.output = path, .name = std::string(c.name), .cutlass_dir = options.cutlass});
      if (built) {
        std::ofstream(seconds_of(path)) << built->seconds << "\n";
        std::printf("%-24s %-5s %6.1f s\n", std::string(c.name).c_str(), variant.suffix.c_str(), built->seconds);
      } else {
        const int code = built.error().code();
        if (code == 531 || code == 530) ++missing;
        failed += code >= 500 ? 1 : 0;
        if (code >= 500) std::ofstream(refusal_of(path)) << built.error().render() << "\n";
        std::printf("%-24s %-5s refused: %s\n", std::string(c.name).c_str(), variant.suffix.c_str(),
                    code >= 500 ? built.error().render().c_str() : built.error().message().c_str());
      }
      std::fflush(stdout);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < std::max(1, std::atoi(options.jobs.c_str())); ++i) threads.emplace_back(build);
  for (std::thread& thread : threads) thread.join();
  if (missing > 0) return std::printf("SKIPPED: no CUTLASS or no nvcc\n"), 77;
  return failed == 0 ? 0 : 1;
}

// Host memory behind the views of a case, and copies of it on the device.
struct Tensors {
  std::deque<std::vector<std::byte>> memory;
  std::vector<DeviceTensor> copies;
  GemmArguments arguments;  // on the device
  Result<void> fill(const Device& device, const GemmArguments& shapes, const std::vector<std::string>& outputs) {
    uint64_t seed = 1;
    const auto make = [&](const TensorView& view, bool output) -> Result<TensorView> {
      const auto [begin, end] = view.byte_range();
      std::vector<std::byte>& bytes = memory.emplace_back(static_cast<size_t>(end - begin) + 64);
      auto* at = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
      auto host = TensorView::make(static_cast<void*>(at), view.dtype(), view.shape(), view.strides());
      if (!host) return std::move(host).error();
      output ? fill_poison(*host) : fill_random(*host, seed++);
      auto copy = DeviceTensor::copy_of(device, *host);
      if (!copy) return std::move(copy).error();
      copies.push_back(*std::move(copy));
      return copies.back().view();
    };
    arguments = shapes;
    // CUTLASS's products of 8-bit floats are summed as the tensor cores do.
    const DType factor = shapes.A.dtype();
    if (factor == f8e4m3 || factor == f8e5m2) arguments.math = MathMode::Fp8FastAccumulation;
    auto a = make(shapes.A, false);
    auto b = make(shapes.B, false);
    if (!a) return std::move(a).error();
    if (!b) return std::move(b).error();
    arguments.A = *a;
    arguments.B = *b;
    std::vector<NamedArgument> named;
    for (const NamedArgument& argument : shapes.epilogue.arguments()) {
      const TensorView* view = argument.value.tensor();
      if (view == nullptr) {
        named.push_back(argument);
        continue;
      }
      auto made = make(*view, std::find(outputs.begin(), outputs.end(), argument.name) != outputs.end());
      if (!made) return std::move(made).error();
      named.push_back({argument.name, *made});
    }
    arguments.epilogue = EpilogueArguments(*shapes.epilogue.epilogue(), std::move(named));
    return {};
  }
};

// What an emitted library takes, in the order that its header says.
struct Call {
  std::vector<int64_t> sizes, strides;
  std::vector<void*> tensors;
  std::deque<double> doubles;
  std::deque<float> floats;
  std::vector<const void*> numbers;
  void add(const TensorView& view) {
    const int rank = view.rank();
    const int64_t row = rank > 1 ? view.stride(rank - 2) : 0, column = rank > 0 ? view.stride(rank - 1) : 0;
    tensors.push_back(view.data());
    strides.push_back(column == 1 || rank < 2 ? row : column);
    strides.push_back(rank > 2 && view.size(0) > 1 ? view.stride(0) : 0);
  }
  explicit Call(const GemmArguments& g) {
    const int rank = g.A.rank();
    sizes = {g.A.size(rank - 2), g.B.size(g.B.rank() - 1), g.A.size(rank - 1), rank == 3 ? g.A.size(0) : 1};
    add(g.A);
    add(g.B);
    const std::vector<std::string> outputs = g.epilogue.epilogue()->outputs();
    const auto named = [&](const std::string& name) -> const ArgumentValue* {
      for (const NamedArgument& argument : g.epilogue.arguments()) {
        if (argument.name == name) return &argument.value;
      }
      return nullptr;
    };
    std::vector<std::string> order = g.epilogue.epilogue()->parameters();
    order.erase(order.begin());
    order.insert(order.end(), outputs.begin(), outputs.end());
    for (const std::string& name : order) {
      const ArgumentValue* value = named(name);
      if (value == nullptr) continue;
      if (value->tensor() != nullptr) {
        add(*value->tensor());
      } else {
        numbers.push_back(&floats.emplace_back(static_cast<float>(std::get<double>(value->value()))));
      }
    }
  }
};

struct Library {
  void* handle = nullptr;
  int (*call)(const int64_t*, void* const*, const int64_t*, const void* const*, void*, int64_t, void*) = nullptr;
  int (*workspace)(const int64_t*, void* const*, const int64_t*, const void* const*, int64_t*) = nullptr;
  const char* (*last_error)() = nullptr;
};
Library load(const std::string& path, const std::string& name) {
  Library library;
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle == nullptr) return library;  // dlerror() says why
  const auto find = [&](const char* what) { return dlsym(library.handle, (name + what).c_str()); };
  library.call = reinterpret_cast<decltype(library.call)>(find("_call"));
  library.workspace = reinterpret_cast<decltype(library.workspace)>(find("_workspace"));
  library.last_error = reinterpret_cast<decltype(library.last_error)>(find("_get_last_error"));
  return library;
}

// Median microseconds of a launch of each, 20 in a row, in turn.
template <class First, class Second>
std::pair<double, double> times_of(const Device& device, First&& first, Second&& second) {
  std::vector<double> times[2];
  const auto time = [&](auto&& launch, std::vector<double>& to) {
    (void)device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) launch();
    (void)device.synchronize();
    to.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 20 * 1e6);
  };
  for (int round = 0; round < 11; ++round) time(first, times[0]), time(second, times[1]);
  for (std::vector<double>& of : times) std::sort(of.begin(), of.end());
  return {times[0][times[0].size() / 2], times[1][times[1].size() / 2]};
}

struct Row {
  double cutlass = 0, own = 0;
  double nvcc_seconds = 0, own_seconds = 0;  // of the compilers, nothing cached
  std::string verdict = "not run";
};

Result<void> run_case(const Device& device, const Case& c, const Options& options, const Variant& variant, Row& row) {
  const std::string path = library_of(options.run, c, options, variant);
  const Library library = load(path, std::string(c.name));
  if (library.call == nullptr) {
    row.verdict = std::filesystem::exists(refusal_of(path)) ? "refused by nvcc"
                  : std::filesystem::exists(path)           ? std::string("not loaded: ") + dlerror()
                                                            : "no library";
    return {};
  }
  const Target own = Target::parse("cuda").value();  // the device's: Sm80's kernels run on later ones, too, from PTX
  std::ifstream(seconds_of(path)) >> row.nvcc_seconds;
  for (const bool timed : {false, true}) {
    const bool fixed = std::string(c.arguments).find("ld=") != std::string::npos;
    if (timed && (fixed || !options.tiles.empty() || !options.cluster.empty())) continue;
    const std::string problem = std::string(c.problem) + (timed ? large : "");
    Case sized = c;
    sized.problem = problem;
    const Problem shapes = problem_of(sized);
    Tensors tensors;
    if (auto ok = tensors.fill(device, shapes.arguments, shapes.arguments.epilogue.epilogue()->outputs()); !ok)
      return ok;
    const Call call(tensors.arguments);
    int64_t bytes = 0;
    library.workspace(call.sizes.data(), call.tensors.data(), call.strides.data(), call.numbers.data(), &bytes);
    auto workspace = DeviceTensor::make(device, DType::u8, {std::max<int64_t>(bytes, 16)});
    if (!workspace) return std::move(workspace).error();
    const auto launch = [&] {
      return library.call(call.sizes.data(), call.tensors.data(), call.strides.data(), call.numbers.data(),
                          workspace->data(), bytes, nullptr);
    };
    if (const int status = launch(); status != 0) {
      row.verdict = "code " + std::to_string(status) + ": " + library.last_error();
      return {};
    }
    if (auto ok = device.synchronize(); !ok) return ok;
    if (!timed) {
      const auto checked = verify(tensors.arguments, own, VerifyOptions{.poisoned = true});
      if (!checked) return checked.error();
      row.verdict = checked->verdict == VerifyReport::Verdict::Pass   ? "right"
                    : checked->verdict == VerifyReport::Verdict::Fail ? "WRONG"
                                                                      : "mistrusted";
      if (row.verdict != "right") std::printf("%s", checked->text.c_str());
      continue;
    }
    // Without the cache: in gpu_check a run for another target has left the same kernels there.
    static Context uncached = Context::make({.cache_enabled = false}).value();
    const auto kernels = find_kernels(tensors.arguments, own, {}, uncached);
    if (!kernels || kernels->empty()) continue;
    const auto start = std::chrono::steady_clock::now();
    // As tune does: a kernel that the assembler cannot hold in registers leaves its place to the next.
    auto execution = (*kernels)[0].prepare(tensors.arguments);
    for (size_t i = 1; !execution && execution.error().code() == 533 && i < kernels->size(); ++i)
      execution = (*kernels)[i].prepare(tensors.arguments);
    if (!execution) return execution.error();
    if (row.own_seconds == 0)
      row.own_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto [cutlass, ours] = times_of(device, launch, [&] { (void)execution->run(); });
    if (row.cutlass == 0 || cutlass < row.cutlass) row.cutlass = cutlass, row.own = ours;
  }
  return {};
}

int run_all(const Options& options) {
  const auto device = Device::open();
  if (!device) return std::printf("SKIPPED: %s\n", device.error().message().c_str()), 77;
  int wrong = 0;
  double logs = 0, compile_logs = 0;
  int timed = 0, compiled = 0;
  std::printf("%-24s %-12s %12s %12s %8s %8s %8s\n", "epilogue", "CUTLASS is", "CUTLASS us", "Codetta us", "ratio",
              "nvcc s", "NVRTC s");
  for (const Case& c : all_cases()) {
    if (!options.takes(c)) continue;
    Row row;
    std::string verdict;
    for (const Variant& variant : variants(options, c)) {
      if (auto ok = run_case(*device, c, options, variant, row); !ok) row.verdict = ok.error().message();
      if (!(options.tiles + options.cluster).empty() && row.verdict != "no library")
        std::printf("  %-22s %-8s %s\n", std::string(c.name).c_str(), variant.suffix.c_str(), row.verdict.c_str());
      if (verdict.empty() || verdict == "no library" || (row.verdict != "right" && row.verdict != "no library"))
        verdict = row.verdict;
    }
    wrong += verdict == "right" || verdict == "no library" ? 0 : 1;
    const bool both = row.cutlass > 0 && row.own > 0;
    if (both) logs += std::log(row.cutlass / row.own), ++timed;
    if (row.nvcc_seconds > 0 && row.own_seconds > 0)
      compile_logs += std::log(row.nvcc_seconds / row.own_seconds), ++compiled;
    std::printf("%-24s %-12s %12.1f %12.1f %8.2f %8.1f %8.2f\n", std::string(c.name).c_str(), verdict.c_str(),
                row.cutlass, row.own, both ? row.cutlass / row.own : 0.0, row.nvcc_seconds, row.own_seconds);
    std::fflush(stdout);
  }
  if (timed > 0)
    std::printf(
        "Codetta's own kernels are %.3f times as fast as CUTLASS's better schedule, geometric mean of %d epilogues\n",
        std::exp(logs / timed), timed);
  if (compiled > 0)
    std::printf("and compiled %.1f times as fast as nvcc compiles CUTLASS, geometric mean of %d\n",
                std::exp(compile_logs / compiled), compiled);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace codetta::evt_tests

int main(int argc, char** argv) {
  codetta::evt_tests::Options options;
  const std::map<std::string, std::string*> known{{"--build", &options.build},     {"--run", &options.run},
                                                  {"--cutlass", &options.cutlass}, {"--target", &options.target},
                                                  {"--jobs", &options.jobs},       {"--only", &options.only},
                                                  {"--tiles", &options.tiles},     {"--cluster", &options.cluster}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end()) return std::printf("unknown option %s\n", argv[i]), 2;
    *option->second = argv[i + 1];
  }
  if (!options.build.empty()) return codetta::evt_tests::build_all(options);
  if (!options.run.empty()) return codetta::evt_tests::run_all(options);
  return std::printf("name --build FOLDER or --run FOLDER\n"), 2;
}
