// SPDX-License-Identifier: Apache-2.0
#include "differential/program_batch.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <span>

#include <fmt/format.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "codetta/build.hpp"
#include "differential/library_call.hpp"
#include "differential/slices.hpp"
#include "driver/context.hpp"
#include "emit/host/python.hpp"

namespace codetta::test {
namespace {

// One batch of so many is built as users build, every text by a compiler run of its own, optimized.
constexpr uint64_t as_users_one_of = 32;

class Batch {
 public:
  Batch(const BatchOptions& options, SharedKernels& kernels, ProgramCounts& counts, const Report& report)
      : seed_(options.seed),
        first_(options.first),
        like_(static_cast<uint64_t>(options.like)),
        kernels_(kernels),
        counts_(counts),
        report_(report) {
    for (int64_t i = 0; i < options.count; ++i) cases_.push_back(std::make_unique<ProgramCase>());
  }

  void run() {
    auto folder = base::TemporaryDirectory::make("/tmp", "codetta-programs-");
    if (!folder) return fail_all("there is no temporary folder");
    folder_ = folder->path();
    ContextOptions options;
    options.cache_enabled = false;
    options.threads = 1 + static_cast<int>(mixed(seed_, like_) % 3);
    auto context = Context::make(options);
    if (!context) return fail_all(context.error().render());
    context_ = *std::move(context);
    target_ = target_of_batch();
    for (size_t i = 0; i < cases_.size(); ++i) {
      const int64_t index = first_ + static_cast<int64_t>(i);
      note(i, cases_[i]->make(mixed(seed_, static_cast<uint64_t>(index)), fmt::format("program_{}", index), target_,
                              *context_, counts_));
    }
    const auto& compiler = context_->shared_state()->compiler();
    if (!compiler) return fail_all(compiler.error().render());
    const bool as_users =
        mixed(seed_ + 1, like_) % as_users_one_of == 0 || compiler->kind != toolchain::CompilerKind::Gcc;
    if (as_users) {
      run_apart(*compiler);
    } else {
      run_together(*compiler);
    }
    run_python();
  }

 private:
  // Mostly what this machine has.
  [[nodiscard]] Target target_of_batch() const {
    const char* const levels[] = {"cpu:generic", "cpu:avx2"};
    const uint64_t drawn = mixed(~seed_, like_) % 6;
    if (drawn < std::size(levels)) {
      const auto target = Target::parse(levels[drawn]);
      if (target && device_supports(*target)) return *target;
    }
    return Target::host();
  }

  // An account of what is wrong with a program, and no further look at it.
  void note(size_t i, const std::string& account) { note(i, account, is_unfinished(account)); }
  void note(size_t i, const std::string& account, bool unfinished) {
    if (account.empty()) return;
    ++(unfinished ? counts_.unfinished : counts_.failed);
    report_(first_ + static_cast<int64_t>(i), unfinished,
            fmt::format("{}, {}\n{}", target_.to_string(), account, cases_[i]->text()));
    cases_[i].reset();
  }
  void fail_all(const std::string& account) { fail_all(account, is_unfinished(account)); }
  void fail_all(const std::string& account, bool unfinished) {
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (cases_[i] != nullptr) note(i, account, unfinished);
    }
  }
  [[nodiscard]] bool goes_on(size_t i) const { return cases_[i] != nullptr && cases_[i]->program(); }
  [[nodiscard]] std::vector<size_t> going() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (goes_on(i)) all.push_back(i);
    }
    return all;
  }

  // As users have it.
  void run_apart(const toolchain::HostCompiler& compiler) {
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (!goes_on(i)) continue;
      const auto outputs = toolchain::compile_all(compiler, cases_[i]->jobs(compiler), {}, 1);
      note(i, cases_[i]->load(outputs));
      if (goes_on(i)) note(i, cases_[i]->run(*context_, counts_));
    }
    const std::vector<size_t> all = going();
    if (all.empty()) return;
    const std::string path = folder_ + "/libbatch.so";
    if (const std::string failure = build_library(all, path); !failure.empty()) {
      if (all.size() == 1) return fail_all(failure);
      for (const size_t i : all) note(i, build_library({i}, folder_ + "/libalone.so"));  // whose fault it is
      return;
    }
    call_library_of(path);
  }

  // The same texts with few compiler runs. Where that fails, each alone shows whose fault it is.
  void run_together(const toolchain::HostCompiler& compiler) {
    const std::vector<size_t> all = going();
    if (all.empty()) return;
    const std::string path = folder_ + "/libbatch.so";
    const std::string failure = build_together(all, path, compiler);
    if (!failure.empty()) {
      if (is_unfinished(failure)) return fail_all(failure);
      const int64_t failed = counts_.failed + counts_.unfinished;
      run_apart(compiler);
      if (counts_.failed + counts_.unfinished == failed)
        fail_all("it builds alone, but not together with others: " + failure);
      return;
    }
    for (const size_t i : all) {
      note(i, cases_[i]->load(kernels_));
      if (goes_on(i)) note(i, cases_[i]->run(*context_, counts_));
    }
    call_library_of(path);
  }

  // ---- the library
  // Hints are for sizes that one of the programs has; names of values are longer than those of sizes.
  [[nodiscard]] bool have_size(const std::vector<size_t>& which, const std::string& size) const {
    const std::regex word("\\b" + size + "\\b");
    return std::any_of(which.begin(), which.end(),
                       [&](size_t i) { return std::regex_search(cases_[i]->text(), word); });
  }
  [[nodiscard]] BuildOptions options_of(const std::vector<size_t>& which, const std::string& path) const {
    BuildOptions options;
    options.output = path;
    options.name = "batch";
    for (const auto& hint : hints_of_programs()) {
      if (have_size(which, hint.first)) options.size_hints.push_back(hint);
    }
    options.engine_dir = CODETTA_ENGINE_DIR;
    return options;
  }
  [[nodiscard]] std::vector<Program> programs_of(const std::vector<size_t>& which) const {
    std::vector<Program> programs;
    for (const size_t i : which) programs.push_back(*cases_[i]->program());
    return programs;
  }
  std::string build_library(const std::vector<size_t>& which, const std::string& path) {
    const auto built = codetta::build(programs_of(which), target_, options_of(which, path), *context_);
    return built ? "" : "it does not build: " + built.error().render();
  }

  // What build() does, but that the programs' texts are one, which is not optimized: it computes sizes, and no
  // elements. The kernels lie in objects of their own.
  std::string build_together(const std::vector<size_t>& which, const std::string& path,
                             const toolchain::HostCompiler& compiler) {
    driver::ContextState& state = *context_->shared_state();
    const BuildOptions options = options_of(which, path);
    const auto planned = driver::plan_library(programs_of(which), target_, options, state, true);
    if (!planned) return planned.error().render();
    if (std::string failure = kernels_.compile(planned->kernels, compiler); !failure.empty()) return failure;
    toolchain::LibraryJob job = driver::job_of(*planned, compiler, "libbatch.so");
    // The host's texts, then those of kernels, which are compiled already, and the list of micro-kernels.
    const std::span<const toolchain::CompileJob> texts(job.units.data(),
                                                       job.units.size() - planned->kernels.size() - 1);
    toolchain::CompileJob whole{host_texts_together(texts, job.files), texts.front().flags, "batch"};
    std::replace(whole.flags.begin(), whole.flags.end(), std::string("-O2"), std::string("-O0"));
    job.units = {std::move(whole), job.units.back()};
    const auto archives = driver::engine_archives(target_, options);
    if (!archives) return archives.error().render();
    job.archives = kernels_.objects(planned->kernels);
    job.archives.insert(job.archives.end(), archives->begin(), archives->end());
    const auto built = toolchain::build_library(compiler, job, state.compile_options(), 1);
    if (!built) return built.error().render();
    const auto written = base::write_file_atomically(path, built->bytes, {.sync = false});
    return written ? "" : written.error().message();
  }

  void call_library_of(const std::string& path) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return fail_all(std::string("the library does not load: ") + ::dlerror());
    const auto error = reinterpret_cast<const char* (*)()>(::dlsym(handle, "batch_get_last_error"));
    for (const size_t i : going()) note(i, call_library(handle, error, *cases_[i]));
    ::dlclose(handle);
  }

  // ---- Python
  void run_python() {
    std::ofstream list(folder_ + "/list");
    size_t modules = 0;
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (!goes_on(i)) continue;
      const auto module =
          emit::host::emit_python(cases_[i]->package(), {CODETTA_TEST_HOST, cases_[i]->kernel_paths(), true});
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
    if (!result) return fail_all("Python: it does not start");
    if (!result->success())
      return fail_all("Python: " + result->summary() + "\n" + result->errors, is_unfinished(*result));
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
  uint64_t like_;
  SharedKernels& kernels_;
  ProgramCounts& counts_;
  const Report& report_;
  std::string folder_;
  std::optional<Context> context_;
  Target target_;
  std::vector<std::unique_ptr<ProgramCase>> cases_;  // null: something is wrong with it
};

}  // namespace

void run_batch(const BatchOptions& options, SharedKernels& kernels, ProgramCounts& counts, const Report& report) {
  Batch(options, kernels, counts, report).run();
}

}  // namespace codetta::test
