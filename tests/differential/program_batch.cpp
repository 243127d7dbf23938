// SPDX-License-Identifier: Apache-2.0
#include "differential/program_batch.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "codetta/build.hpp"
#include "differential/slices.hpp"
#include "driver/context.hpp"
#include "emit/host/python.hpp"
#include "support/layouts.hpp"

namespace codetta::test {
namespace {

// A tensor as the header of a library declares it.
struct HostTensor {
  void* data = nullptr;
  int32_t dtype = 0, rank = 0;
  int64_t shape[8] = {}, strides[8] = {};
};

HostTensor host_tensor(const TensorView& view) {
  HostTensor made{view.data(), static_cast<int32_t>(view.dtype()), view.rank(), {}, {}};
  for (int d = 0; d < view.rank(); ++d) {
    made.shape[d] = view.size(d);
    made.strides[d] = view.stride(d);
  }
  return made;
}

std::string bytes_of(const Tensor& tensor) {
  const TensorView view = tensor.view();
  return {static_cast<const char*>(view.data()), static_cast<size_t>(view.element_count() * dtype_size(view.dtype()))};
}

std::string hex(const std::string& bytes, size_t at, size_t count) {
  std::string text;
  for (size_t i = count; i-- > 0;) text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[at + i]));
  return text;
}

// Where the bytes of an output differ from those of the run in process; empty: nowhere.
std::string difference(const std::string& name, const Tensor& expected, const std::string& actual) {
  const std::string wanted = bytes_of(expected);
  if (wanted == actual) return {};
  const auto size = static_cast<size_t>(dtype_size(expected.view().dtype()));
  if (wanted.size() != actual.size())
    return fmt::format("{} has {} bytes, in process {}", name, actual.size(), wanted.size());
  int64_t differing = 0;
  size_t first = wanted.size();
  for (size_t at = 0; at < wanted.size(); at += size) {
    if (std::memcmp(wanted.data() + at, actual.data() + at, size) == 0) continue;
    ++differing;
    first = std::min(first, at);
  }
  return fmt::format("{}: {} of {} elements differ, the first at {}: {}, in process {}", name, differing,
                     wanted.size() / size, first / size, hex(actual, first, size), hex(wanted, first, size));
}

class Batch {
 public:
  Batch(uint64_t seed, int64_t first, int64_t count, ProgramCounts& counts,
        const std::function<void(int64_t, const std::string&)>& report)
      : seed_(seed), first_(first), counts_(counts), report_(report) {
    for (int64_t i = 0; i < count; ++i) cases_.push_back(std::make_unique<ProgramCase>());
  }

  void run() {
    auto folder = base::TemporaryDirectory::make("/tmp", "codetta-programs-");
    if (!folder) return fail_all("there is no temporary folder");
    folder_ = folder->path();
    ContextOptions options;
    options.cache_enabled = false;
    options.threads = 1 + static_cast<int>(mixed(seed_, static_cast<uint64_t>(first_)) % 3);
    auto context = Context::make(options);
    if (!context) return fail_all(context.error().render());
    context_ = *std::move(context);
    target_ = target_of_batch();
    for (size_t i = 0; i < cases_.size(); ++i) {
      const int64_t index = first_ + static_cast<int64_t>(i);
      note(i, cases_[i]->make(mixed(seed_, static_cast<uint64_t>(index)), fmt::format("program_{}", index), target_,
                              *context_, counts_));
    }
    run_in_process();
    run_library();
    run_python();
  }

 private:
  // Mostly what this machine has.
  [[nodiscard]] Target target_of_batch() const {
    const char* const levels[] = {"cpu:generic", "cpu:avx2"};
    const uint64_t drawn = mixed(~seed_, static_cast<uint64_t>(first_)) % 6;
    if (drawn < std::size(levels)) {
      const auto target = Target::parse(levels[drawn]);
      if (target && device_supports(*target)) return *target;
    }
    return Target::host();
  }

  // An account of what is wrong with a program, and no further look at it.
  void note(size_t i, const std::string& account) {
    if (account.empty()) return;
    ++counts_.failed;
    report_(first_ + static_cast<int64_t>(i),
            fmt::format("{}, {}\n{}", target_.to_string(), account, cases_[i]->text()));
    cases_[i].reset();
  }
  void fail_all(const std::string& account) {
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (cases_[i] != nullptr) note(i, account);
    }
  }
  [[nodiscard]] bool goes_on(size_t i) const { return cases_[i] != nullptr && cases_[i]->program(); }

  void run_in_process() {
    const auto& compiler = context_->shared_state()->compiler();
    if (!compiler) return fail_all(compiler.error().render());
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (!goes_on(i)) continue;
      const auto outputs = toolchain::compile_all(*compiler, cases_[i]->jobs(*compiler), {}, 1);
      note(i, cases_[i]->load(outputs));
      if (goes_on(i)) note(i, cases_[i]->run(*context_, counts_));
    }
  }

  // ---- the library
  // Hints are for sizes that one of the programs has; names of values are longer than those of sizes.
  [[nodiscard]] bool have_size(const std::vector<size_t>& which, const std::string& size) const {
    const std::regex word("\\b" + size + "\\b");
    return std::any_of(which.begin(), which.end(),
                       [&](size_t i) { return std::regex_search(cases_[i]->text(), word); });
  }
  std::string build_library(const std::vector<size_t>& which, const std::string& path) {
    std::vector<Program> programs;
    for (const size_t i : which) programs.push_back(*cases_[i]->program());
    BuildOptions options;
    options.output = path;
    options.name = "batch";
    for (const auto& hint : hints_of_programs()) {
      if (have_size(which, hint.first)) options.size_hints.push_back(hint);
    }
    options.engine_dir = CODETTA_ENGINE_DIR;
    const auto built = codetta::build(programs, target_, options, *context_);
    return built ? "" : "it does not build: " + built.error().render();
  }

  void run_library() {
    std::vector<size_t> all;
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (goes_on(i)) all.push_back(i);
    }
    if (all.empty()) return;
    const std::string path = folder_ + "/libbatch.so";
    if (const std::string failure = build_library(all, path); !failure.empty()) {
      if (all.size() == 1) return fail_all(failure);
      for (const size_t i : all) note(i, build_library({i}, folder_ + "/libalone.so"));  // whose fault it is
      return;
    }
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return fail_all(std::string("the library does not load: ") + ::dlerror());
    const auto error = reinterpret_cast<const char* (*)()>(::dlsym(handle, "batch_get_last_error"));
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (goes_on(i)) note(i, call(handle, error, *cases_[i]));
    }
    ::dlclose(handle);
  }

  static std::string call(void* handle, const char* (*error)(), const ProgramCase& one) {
    using Function = int (*)(const HostTensor*, int32_t, void*, int64_t, void*);
    const auto function = reinterpret_cast<Function>(::dlsym(handle, ("batch_" + one.name() + "_tensors").c_str()));
    if (function == nullptr) return "the library lacks its function";
    for (const ProgramRunData& run : one.runs()) {
      const std::vector<Tensor> outputs = run.poisoned_outputs();
      std::vector<HostTensor> tensors;
      const std::vector<Tensor> given = run.parameter_copies();
      for (const Tensor& parameter : given) tensors.push_back(host_tensor(parameter.view()));
      for (const Tensor& output : outputs) tensors.push_back(host_tensor(output.view()));
      const int status = function(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr, 0, nullptr);
      if (status != 0)
        return fmt::format("with {}: the library's function returns {}: {}", run.describe(), status, error());
      for (size_t o = 0; o < outputs.size(); ++o) {
        const std::string account = difference(fmt::format("output {}", o), run.outputs[o], bytes_of(outputs[o]));
        if (!account.empty()) return fmt::format("with {}: the library's {}", run.describe(), account);
      }
      std::string account = call_with_layouts(function, error, one, run);
      if (!account.empty()) return fmt::format("with {}, {}", run.describe(), account);
    }
    return {};
  }

  // The same values in tensors that lie anywhere; what is donated lies in one piece.
  template <class Function>
  static std::string call_with_layouts(Function function, const char* (*error)(), const ProgramCase& one,
                                       const ProgramRunData& run) {
    std::mt19937_64 random(std::hash<std::string>{}(one.text()));
    std::vector<Laid> given, outputs;
    const std::vector<Tensor> copies = run.parameter_copies(), values = run.parameter_copies();
    const std::vector<ProgramParameter> parameters = one.program()->parameters();
    std::vector<HostTensor> tensors;
    std::string layouts;
    const auto add = [&](const TensorView& view) {
      tensors.push_back(host_tensor(view));
      layouts += fmt::format("{} with strides {}\n", view.describe(), to_string(view.strides()));
    };
    for (size_t i = 0; i < copies.size(); ++i) {
      const TensorView dense = copies[i].view();
      if (parameters[i].donated) {
        add(dense);
        continue;
      }
      given.push_back(laid(dense.dtype(), dense.shape(), random, true));
      // Of a dim that has one element for all: what lies there in the end.
      copy_elements(dense, given.back().view);
      copy_elements(given.back().view, values[i].view());
      add(given.back().view);
    }
    for (const Tensor& output : run.outputs) {
      outputs.push_back(laid(output.view().dtype(), output.view().shape(), random, false));
      add(outputs.back().view);
    }
    const int status = function(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr, 0, nullptr);
    if (status != 0)
      return fmt::format("laid somewhere: the library's function returns {}: {}\n{}", status, error(), layouts);
    std::vector<Tensor> gathered;
    for (const Laid& output : outputs) {
      gathered.push_back(Tensor::make(output.view.dtype(), output.view.shape()).value());
      copy_elements(output.view, gathered.back().view());
      if (!output.gaps_untouched()) return fmt::format("the library writes beside an output\n{}", layouts);
    }
    const std::string account = one.judged(values, gathered);
    return account.empty() ? account : fmt::format("laid somewhere: the library's outputs:\n{}{}", account, layouts);
  }

  // ---- Python
  void run_python() {
    std::ofstream list(folder_ + "/list");
    size_t modules = 0;
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (!goes_on(i)) continue;
      const auto module = emit::host::emit_python(cases_[i]->package(), {CODETTA_TEST_HOST, {}, true});
      if (!module) {
        note(i, "it has no Python text: " + module.error().render());
        continue;
      }
      const std::string file = folder_ + "/" + cases_[i]->name() + ".py";
      std::ofstream(file) << *module;
      for (size_t r = 0; r < cases_[i]->runs().size(); ++r) write_run(list, i, r, file);
      ++modules;
    }
    list.close();
    if (modules == 0) return;
    base::ProcessRequest request;
    request.program =
        base::find_executable(CODETTA_TEST_PYTHON, "/usr/bin:/usr/local/bin").value_or("/usr/bin/python3");
    request.arguments = {"-B", CODETTA_SOURCE_DIR "/tests/differential/run_programs.py", folder_ + "/list"};
    request.environment = {"PATH=/usr/bin:/bin"};
    const auto result = base::run_process(request);
    if (!result || !result->success())
      return fail_all("Python: " + (result ? result->summary() + "\n" + result->errors : "it does not start"));
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (goes_on(i)) note(i, compare_python(i));
    }
  }

  [[nodiscard]] std::string file_of(size_t i, size_t r, const char* what, size_t number) const {
    return fmt::format("{}/{}.{}.{}{}", folder_, cases_[i]->name(), r, what, number);
  }

  // A line: the module, the file for what it returns, then kind, shape and file of each array.
  void write_run(std::ostream& list, size_t i, size_t r, const std::string& module) const {
    static constexpr std::array<const char*, 15> names{"?",  "i1", "i2", "i4", "i8", "u1", "u2", "u4",
                                                       "u8", "u1", "u1", "f2", "u2", "f4", "f8"};
    const ProgramRunData& run = cases_[i]->runs()[r];
    list << module << " " << file_of(i, r, "result", 0);
    const auto add = [&](const Tensor& tensor, const char* what, size_t number, char access) {
      const std::string file = file_of(i, r, what, number);
      std::ofstream(file, std::ios::binary) << bytes_of(tensor);
      list << " " << access << " " << names[static_cast<size_t>(tensor.view().dtype())] << " [";
      for (int d = 0; d < tensor.view().rank(); ++d) list << tensor.view().size(d) << ",";
      list << "] " << file;
    };
    for (size_t p = 0; p < run.parameters.size(); ++p) add(run.parameters[p], "in", p, 'r');
    const std::vector<Tensor> outputs = run.poisoned_outputs();
    for (size_t o = 0; o < outputs.size(); ++o) add(outputs[o], "out", o, 'w');
    list << "\n";
  }

  [[nodiscard]] std::string compare_python(size_t i) const {
    const auto contents = [](const std::string& path) {
      std::ifstream file(path, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    };
    for (size_t r = 0; r < cases_[i]->runs().size(); ++r) {
      const ProgramRunData& run = cases_[i]->runs()[r];
      const std::string said = contents(file_of(i, r, "result", 0));
      if (said != "0") return fmt::format("with {}: the Python module returns {}", run.describe(), said);
      for (size_t o = 0; o < run.outputs.size(); ++o) {
        const std::string account =
            difference(fmt::format("output {}", o), run.outputs[o], contents(file_of(i, r, "out", o)));
        if (!account.empty()) return fmt::format("with {}: Python's {}", run.describe(), account);
      }
    }
    return {};
  }

  uint64_t seed_;
  int64_t first_;
  ProgramCounts& counts_;
  const std::function<void(int64_t, const std::string&)>& report_;
  std::string folder_;
  std::optional<Context> context_;
  Target target_;
  std::vector<std::unique_ptr<ProgramCase>> cases_;  // null: something is wrong with it
};

}  // namespace

void run_batch(uint64_t seed, int64_t first, int64_t count, ProgramCounts& counts,
               const std::function<void(int64_t index, const std::string& account)>& report) {
  Batch(seed, first, count, counts, report).run();
}

}  // namespace codetta::test
