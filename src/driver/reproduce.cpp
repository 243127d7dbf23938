// SPDX-License-Identifier: Apache-2.0
// reproduce(): a package of one launch, whose buffers are all arguments, as host text with a program that calls it.
#include "codetta/reproducer.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "base/files.hpp"
#include "driver/build_plan.hpp"
#include "driver/kernel_state.hpp"
#include "driver/named_kernel.hpp"
#include "driver/output_folder.hpp"
#include "emit/host/text.hpp"
#include "package/written.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace driver {
namespace {

using package::Buffer;
using types::Dim;
using Sizes = std::map<std::string, int64_t>;

constexpr const char* library_name = "reproducer";
constexpr int64_t size_computed = 16;  // of what a run computes

// The first launch that runs the kernel, or whose product reads what the kernel makes; and what symbols are by then.
struct Found {
  const package::LaunchKernel* launch = nullptr;
  Sizes symbols;
};

void define(const package::DefineSymbol& step, Sizes& symbols) {
  if (symbols.contains(step.symbol)) return;
  if (step.from == package::DefineSymbol::From::Expression) {
    const auto value = step.value.evaluate(symbols), divisor = step.divisor.evaluate(symbols);
    if (value && divisor && *divisor != 0) symbols[step.symbol] = *value / *divisor;
    return;
  }
  symbols[step.symbol] = size_computed;
}

Found find_launch(const package::Package& package, uint32_t kernel, Sizes symbols) {
  Found found{nullptr, std::move(symbols)};
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* known = std::get_if<package::DefineSymbol>(&step)) define(*known, found.symbols);
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr || found.launch != nullptr) continue;
      bool made = false;
      if (launch->product) {
        for (const package::Prologue& prologue : launch->product->b_made) made = made || prologue.kernel == kernel;
      }
      if (launch->kernel == kernel || made) found.launch = launch;
    }
  };
  look(package.steps);
  for (const package::StepList& list : package.step_lists) look(list);
  return found;
}

// Whether the bytes can be counted, with some room behind them. `strides` are filled in where they are row-major.
bool extent_fits(const Buffer& buffer, std::vector<int64_t>& strides) {
  const size_t rank = buffer.shape.size();
  const auto size = [&](size_t d) { return buffer.shape[d].as_constant().value_or(0); };
  int64_t step = 1, reach = 1, part = 0;
  bool empty = false;
  for (size_t d = 0; d < rank; ++d) empty = empty || size(d) == 0;
  if (strides.size() != rank) {
    strides.assign(rank, 1);
    for (size_t d = rank; d-- > 0;) {
      strides[d] = step;
      if (__builtin_mul_overflow(step, std::max(size(d), int64_t{1}), &step)) return false;
    }
  }
  for (size_t d = 0; d < rank && !empty; ++d) {
    if (__builtin_mul_overflow(size(d) - 1, strides[d], &part) || __builtin_add_overflow(reach, part, &reach))
      return false;
  }
  return !__builtin_mul_overflow(reach, int64_t{dtype_size(buffer.dtype)}, &part) && part <= INT64_MAX - 64;
}

// Buffers of a launch as arguments of a package of their own.
class OneLaunch {
 public:
  OneLaunch(const package::Package& from, Found found) : from_(from), found_(std::move(found)) {}

  Result<package::Package> make() {
    package::LaunchKernel launch = *found_.launch;
    package_.name = "kernel";
    package_.target = from_.target;
    package_.build_id = from_.build_id;
    launch.kernel = take(launch.kernel);
    if (launch.product) {
      for (package::Prologue& prologue : launch.product->b_made) prologue.kernel = take(prologue.kernel);
    }
    const std::vector<uint32_t> written = package::buffers_written(from_, package::Step(*found_.launch));
    const auto is_written = [&](uint32_t b) { return std::find(written.begin(), written.end(), b) != written.end(); };
    std::vector<uint32_t> used;
    const auto use = [&](uint32_t b) {
      if (std::find(used.begin(), used.end(), b) == used.end()) used.push_back(b);
    };
    if (launch.product) launch.product->each_buffer(use);
    for (const uint32_t b : launch.arguments) use(b);
    std::stable_partition(used.begin(), used.end(), [&](uint32_t b) { return !is_written(b); });
    for (const uint32_t b : used) CODETTA_CHECK_OK(add(b, is_written(b)));
    const auto move = [&](uint32_t& b) { b = number_.at(b); };
    if (launch.product) {
      move(launch.product->a), move(launch.product->b);
      for (uint32_t& b : launch.product->more_b) move(b);
      for (package::Prologue& prologue : launch.product->b_made) {
        for (uint32_t& b : prologue.arguments) move(b);
      }
    }
    for (uint32_t& b : launch.arguments) move(b);
    for (const auto& [symbol, value] : found_.symbols) {
      package_.steps.emplace_back(package::DefineSymbol{symbol, 0, 0, package::DefineSymbol::From::Expression, 0,
                                                        Dim::constant(value), Dim::constant(1)});
    }
    package_.steps.emplace_back(std::move(launch));
    package_.steps.emplace_back(package::Return{});
    CODETTA_CHECK_OK(package::check(package_));
    return std::move(package_);
  }
  // Which kernels of the program the package has.
  [[nodiscard]] const std::vector<uint32_t>& kernels() const { return kernels_; }
  // Bytes of constants, by their place among the arguments.
  [[nodiscard]] const std::map<size_t, std::string>& constants() const { return constants_; }
  // Of the arguments.
  [[nodiscard]] const std::map<size_t, std::vector<int64_t>>& strides() const { return strides_; }

 private:
  uint32_t take(uint32_t kernel) {
    const auto known = std::find(kernels_.begin(), kernels_.end(), kernel);
    const auto place = static_cast<uint32_t>(known - kernels_.begin());
    if (known != kernels_.end()) return place;
    kernels_.push_back(kernel);
    package_.kernels.push_back(from_.kernels[kernel]);
    return place;
  }
  Result<void> add(uint32_t b, bool written) {
    const Buffer& old = from_.buffers[b];
    Buffer made;
    made.name = "t" + std::to_string(number_.size());
    made.role = written ? Buffer::Role::Output : Buffer::Role::Argument;
    made.dtype = old.dtype;
    made.is_scalar = old.is_scalar;
    for (const Dim& dim : old.shape) {
      CODETTA_TRY(const int64_t size, value_of(dim, old.name));
      made.shape.push_back(Dim::constant(size));
    }
    for (const Dim& dim : old.strides) {
      CODETTA_TRY(const int64_t stride, value_of(dim, old.name));
      strides_[number_.size()].push_back(stride);
    }
    if (!extent_fits(made, strides_[number_.size()])) {
      return diag::error(diag::Code::tensor_overflow, fmt::format("the extent of {} overflows", old.name))
          .reason("with the sizes that are given it has 2^63 bytes or more")
          .help("give smaller ones");
    }
    if (!old.constant.empty()) constants_[number_.size()] = old.constant;
    number_[b] = static_cast<uint32_t>(number_.size());
    package_.buffers.push_back(std::move(made));
    return {};
  }
  [[nodiscard]] Result<int64_t> value_of(const Dim& dim, const std::string& name) const {
    const auto value = dim.evaluate(found_.symbols);
    if (value && *value >= 0) return *value;
    return diag::error(diag::Code::guard_failed, fmt::format("{} has no size of {}", name, dim.to_string()))
        .reason("the sizes that are given do not say it")
        .help("give sizes with which the program can run");
  }

  const package::Package& from_;
  Found found_;
  package::Package package_;
  std::vector<uint32_t> kernels_;
  std::map<uint32_t, uint32_t> number_;
  std::map<size_t, std::string> constants_;
  std::map<size_t, std::vector<int64_t>> strides_;
};

// The table that device/host/reproducer.h goes by.
std::string main_text(const package::Package& package, const std::string& kernel, const OneLaunch& launch) {
  const bool hip = package.target.backend == Backend::hip;
  std::string text = fmt::format(
      "// Generated by Codetta: calls {}.\n{}#include \"device/host/reproducer.h\"\n\n#include \"{}.h\"\n\n", kernel,
      hip ? "#include \"device/host/hip.h\"\n" : "", library_name);
  text += "static const codetta::host::GivenTensor tensors[] = {\n";
  for (size_t b = 0; b < package.buffers.size(); ++b) {
    const Buffer& buffer = package.buffers[b];
    std::string sizes, strides;
    for (const Dim& dim : buffer.shape) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", dim.to_string());
    for (const int64_t stride : launch.strides().at(b))
      strides += fmt::format("{}{}", strides.empty() ? "" : ", ", stride);
    // A number travels in the type of the C function.
    const DType dtype =
        buffer.is_scalar && types::is_float(buffer.dtype) && buffer.dtype != DType::f64 ? DType::f32 : buffer.dtype;
    text +=
        fmt::format("    {{\"{}\", {}, {}, {{{}}}, {{{}}}, {}, {}}},  // {}\n", buffer.name, static_cast<int>(dtype),
                    buffer.shape.size(), sizes, strides, buffer.role == Buffer::Role::Output, buffer.is_scalar,
                    emit::host::comment_text(std::string(dtype_name(buffer.dtype))));
  }
  text += fmt::format(
      "}};\n\nint main(int argc, char** argv) {{\n  return codetta::host::reproduce(argc, argv, tensors, {}, {{{}, "
      "{}_init, reinterpret_cast<codetta::host::CallTensors>({}_kernel_tensors), {}_get_last_error}});\n}}\n",
      package.buffers.size(),
      hip                                       ? "codetta::host::load_hip"
      : package.target.backend == Backend::cuda ? "codetta::host::load_cuda"
                                                : "nullptr",
      library_name, library_name, library_name);
  return text;
}

std::string quoted(const std::string& flag) {
  std::string text = "'";
  for (const char c : flag) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace
}  // namespace driver

Result<ReproducerReport> reproduce(const Program& program, const Target& target, const ReproducerOptions& options,
                                   Context& context) {
  const base::DefaultFloats floats;
  using namespace driver;
  CODETTA_CHECK_OK(check_folder(options.folder, "the reproducer"));
  ContextState& state = *context.shared_state();
  CODETTA_TRY(NamedKernel named, find_kernel(program, target, options, state));
  LibraryPlan& planned = named.planned;
  planned.host.programs = {emit::host::Program(std::move(planned.host.programs[named.program]))};
  planned.host.by_size.clear();
  emit::host::Program& one = planned.host.programs[0];
  const package::PackageRef whole = one.package;
  const std::string& kernel = whole->kernels[named.kernel].name;
  const Found found = find_launch(*whole, named.kernel, {named.sizes.begin(), named.sizes.end()});
  if (found.launch == nullptr)
    return diag::error(diag::Code::internal, fmt::format("nothing launches kernel {}", kernel));
  OneLaunch launch(*whole, found);
  CODETTA_TRY(package::Package package, launch.make());
  // Only what it calls.
  std::vector<emit::host::KernelFunctions> functions;
  std::vector<std::string> images;
  EmbeddedBytes carried;
  std::set<std::string> called;
  for (const uint32_t k : launch.kernels()) {
    if (k < one.functions.size()) {
      functions.push_back(one.functions[k]);
      called.insert({functions.back().tiles, functions.back().fused, functions.back().user});
    }
    if (k < one.images.size()) images.push_back(carried.add(planned.bytes.content_of(one.images[k])));
  }
  planned.bytes = std::move(carried);
  std::erase_if(planned.kernels, [&](const KernelUnit& unit) { return !called.contains(unit.function); });
  one.functions = std::move(functions);
  one.apart.clear();  // its tensors lie row-major
  one.images = std::move(images);
  one.function = "kernel";
  one.constants.clear();
  one.packed.clear();
  one.package = std::make_shared<const package::Package>(std::move(package));
  CODETTA_CHECK_OK(emit::host::check_library(planned.host));
  const auto& compiler = state.compiler();
  if (!compiler) return compiler.error();
  toolchain::LibraryJob job = job_of(planned, *compiler, library_name);
  BuildOptions build;
  build.engine_dir = options.engine_dir;
  CODETTA_TRY(const std::vector<std::string> archives, engine_archives(planned.host.target, build));

  std::map<std::string, std::string> files;
  for (toolchain::LibraryFile& file : job.files) files[file.path] = std::move(file.bytes);
  std::string script =
      "#!/bin/sh\nset -e\n# Builds and runs what calls " + kernel + ".\ncd \"$(dirname \"$0\")\"\n: \"${CXX:=c++}\"\n";
  job.units.push_back({main_text(*one.package, kernel, launch), {"-std=c++20", "-O1"}, "main"});
  for (const toolchain::CompileJob& unit : job.units) {
    const std::string file = unit.label.ends_with(".cpp") ? unit.label : unit.label + ".cpp";
    std::string flags;
    for (const std::string& flag : unit.flags) flags += " " + quoted(flag);
    files[file] = unit.source;
    script += fmt::format("\"$CXX\" -I.{} -fPIE -c {} -o {}.o\n", flags, file, file);
  }
  script += "\"$CXX\"";
  for (const toolchain::CompileJob& unit : job.units)
    script += fmt::format(" {}.o", unit.label.ends_with(".cpp") ? unit.label : unit.label + ".cpp");
  script += " -Wl,--start-group";
  for (const std::string& archive : archives) {
    const std::string name = archive.substr(archive.rfind('/') + 1);
    auto bytes = base::read_file(archive, size_t{1} << 30);
    if (!bytes) return unwritable(name, bytes.error().message());
    files[name] = *std::move(bytes);
    script += " " + name;
  }
  files["build.sh"] =
      script + " -Wl,--end-group -pie -Wl,--gc-sections -pthread -ldl -o reproducer\nexec ./reproducer \"$@\"\n";
  files[std::string(library_name) + ".h"] = emit::host::print_header(planned.host);
  for (const auto& [b, bytes] : launch.constants()) files[one.package->buffers[b].name + ".bin"] = bytes;
  files["plan.txt"] = package::list_steps(*one.package);

  if (options.before_writing) {
    std::vector<std::pair<std::string, std::string>> places;
    for (const auto& [name, bytes] : files) places.emplace_back(name, options.folder + "/" + name);
    CODETTA_CHECK_OK(options.before_writing(places, true));
  }
  ReproducerReport report{kernel, {}, "sh build.sh"};
  CODETTA_CHECK_OK(write_folder(options.folder, files));
  for (const auto& [name, bytes] : files) report.files.push_back(name);
  return report;
}

}  // namespace codetta
