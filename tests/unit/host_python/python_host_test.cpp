// SPDX-License-Identifier: Apache-2.0
// Emitted Python modules run and give the bits of execution in this process: every feature that they have.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/process.hpp"
#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"
#include "emit/host/python.hpp"
#include "unit/features/feature_packages.hpp"

namespace codetta::emit::host {
namespace {

namespace fs = std::filesystem;
using package::Buffer;
using runtime::test::StepProgram;
using types::Dim;

std::string numpy_name(DType dtype) {
  constexpr std::array<const char*, dtype_count> names{"?",  "i1", "i2", "i4", "i8", "u1", "u2", "u4",
                                                       "u8", "u1", "u1", "f2", "u2", "f4", "f8"};
  return names[static_cast<size_t>(dtype)];
}

class PythonHost : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("codetta-python-host-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string bytes_of(const TensorView& view) {
    return {static_cast<const char*>(view.data()),
            static_cast<size_t>(view.element_count() * dtype_size(view.dtype()))};
  }
  // A module and its arguments, all row-major, as they lie before any run.
  void write(const std::string& name, const std::string& module, const package::Package& package,
             const runtime::Bindings& bindings) {
    std::ofstream(folder_ / (name + ".py")) << module;
    std::ofstream arguments(folder_ / (name + ".args"));
    for (size_t i = 0; i < package.buffers.size(); ++i) {
      const Buffer& buffer = package.buffers[i];
      if (buffer.role != Buffer::Role::Argument && buffer.role != Buffer::Role::Output) continue;
      if (buffer.is_scalar) {
        const codetta::cpu::ScalarValue& value = bindings.scalars[i];
        if (buffer.dtype == DType::boolean) {
          arguments << "flag " << value.u << "\n";
        } else if (!types::is_float(buffer.dtype)) {
          arguments << "integer " << value.i << "\n";
        } else {
          arguments << "number " << (buffer.dtype == f64 ? value.d : static_cast<double>(value.f)) << "\n";
        }
        continue;
      }
      const TensorView& view = bindings.tensors[i];
      const fs::path file = folder_ / (name + "." + std::to_string(i) + ".bin");
      std::ofstream(file, std::ios::binary) << bytes_of(view);
      arguments << "array " << numpy_name(view.dtype()) << " ";
      for (int d = 0; d < view.rank(); ++d) arguments << view.size(d) << ",";
      arguments << " " << file.string() << "\n";
    }
  }
  void run_all(int times = 1) {
    base::ProcessRequest request;
    request.program =
        base::find_executable(CODETTA_TEST_PYTHON, "/usr/bin:/usr/local/bin").value_or("/usr/bin/python3");
    request.arguments = {"-B", CODETTA_SOURCE_DIR "/tests/unit/host_python/run_modules.py", folder_.string(),
                         std::to_string(times)};
    request.environment = {"PATH=/usr/bin:/bin"};
    const auto result = base::run_process(request);
    ASSERT_TRUE(result);
    if (result->errors.find("No module named 'numpy'") != std::string::npos) GTEST_SKIP() << "no numpy";
    ASSERT_TRUE(result->success()) << result->errors;
  }
  [[nodiscard]] std::string result_of(const std::string& name) const {
    std::ifstream file(folder_ / (name + ".result"));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  [[nodiscard]] std::string array_of(const std::string& name, size_t buffer) const {
    std::ifstream file(folder_ / (name + "." + std::to_string(buffer) + ".bin"), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void expect_same(const std::string& name, const package::Package& package, const runtime::Bindings& bindings) {
    for (size_t i = 0; i < package.buffers.size(); ++i) {
      if (package.buffers[i].role == Buffer::Role::Output) {
        EXPECT_EQ(array_of(name, i), bytes_of(bindings.tensors[i])) << name << ": " << package.buffers[i].name;
      }
    }
  }

  fs::path folder_;
  PythonOptions options_{CODETTA_TEST_HOST, {}, true};
};

TEST_F(PythonHost, EveryFeatureGivesTheSameBits) {
  std::vector<features::Feature> all = features::all_features();
  std::vector<std::pair<std::string, features::Feature*>> emitted;
  for (size_t i = 0; i < all.size(); ++i) {
    StepProgram& program = *all[i].program;
    const auto module = emit_python(program.package, options_);
    if (!module) {
      EXPECT_EQ(module.error().code(), static_cast<uint16_t>(diag::Code::step_unsupported)) << all[i].row;
      continue;
    }
    std::mt19937 gen(static_cast<unsigned>(i));
    std::vector<double> values(16);
    for (double& value : values) value = static_cast<double>(gen() % 7);
    program.set(0, values);
    program.set(1, std::vector<double>(16, 3));
    const std::string name = "f" + std::to_string(i);
    write(name, *module, program.package, program.bindings);
    emitted.emplace_back(name, &all[i]);
  }
  EXPECT_GT(emitted.size(), 40U);
  run_all();
  if (IsSkipped()) return;
  for (const auto& [name, feature] : emitted) {
    const auto ran = feature->program->run();
    const bool of_the_extern = feature->row.find("extern") != std::string::npos;  // Python's returns an array
    if (!of_the_extern) {
      EXPECT_EQ(result_of(name), "0") << feature->row;
      EXPECT_TRUE(ran) << feature->row;
    }
    expect_same(name, feature->program->package, feature->program->bindings);
  }
}

// Its operands in order, numbers of 16 and of 8 bits among them, then its result; and a code of its own.
TEST_F(PythonHost, KernelsOfTheUser) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {2, 3}, {1, 2, 3, 4, 5, 6}), by = p.scalar("by", f32, 0),
                 half = p.scalar("half", bf16, 0), e4m3 = p.scalar("e4m3", f8e4m3, 0),
                 e5m2 = p.scalar("e5m2", f8e5m2, 0), y = p.output("y", f32, {2, 3});
  p.bindings.scalars[by].f = 10;
  p.bindings.scalars[half].f = 0.5F;
  p.bindings.scalars[e4m3].f = 1.5F;         // 0x3c
  p.bindings.scalars[e5m2].f = -1000000.0F;  // saturates: 0xfb
  package::LaunchKernel launch = p.copy_kernel(x, y, Dim::constant(2), Dim::constant(3));
  launch.arguments = {x, by, half, e4m3, e5m2, y};
  package::Kernel& kernel = p.package.kernels.back();
  kernel.config = package::CpuUserConfig{};
  std::vector<package::Argument>& arguments = kernel.epilogue.arguments;
  arguments.insert(arguments.begin() + 1, {{"by", f32, true, false, {}},
                                           {"half", bf16, true, false, {}},
                                           {"e4m3", f8e4m3, true, false, {}},
                                           {"e5m2", f8e5m2, true, false, {}}});
  const plan::UserSource user{
      "mix",
      "int mix(Tensor<const float, 2> x, float by, bfloat16 half, float8_e4m3 small, float8_e5m2 wide, "
      "Tensor<float, 2> y) {\n  if (by < 0) return 5;\n"
      "  if (small.bits != 0x3c || wide.bits != 0xfb) return 6;\n"
      "  for (int64_t i = 0; i < x.size(0); ++i)\n"
      "    for (int64_t j = 0; j < x.size(1); ++j) y(i, j) = x(i, j) * by + half;\n  return 0;\n}\n",
      plan::UserSource::Language::Cpp, "mix.cc"};
  const EmittedSource source = *emit_cpu_user(user, kernel.epilogue, nullptr, {}, {});
  kernel.source = source.text;
  kernel.symbol = source.entry;
  package::EpilogueProgram& program = kernel.epilogue;
  program.operands.clear();
  program.phases[0].insts.clear();
  program.phases[0].stores.clear();
  package::Inst nothing;
  nothing.kind = package::Inst::Kind::Literal;
  nothing.type = nothing.aux = f32;
  program.phases[0].insts.push_back(nothing);
  p.put(launch);
  ASSERT_EQ(find_defect(p.package).value_or(""), "");
  const std::string text = (folder_ / "mix.cc").string(), object = (folder_ / "mix.so").string();
  std::ofstream(text) << source.text;
  base::ProcessRequest request;
  request.program = base::find_executable("c++", "/usr/local/bin:/usr/bin:/bin").value_or("/usr/bin/c++");
  request.arguments = {"-std=c++20", "-shared", "-fPIC", text, "-o", object};
  request.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  const auto compiled = base::run_process(request);
  ASSERT_TRUE(compiled && compiled->success()) << (compiled ? compiled->errors : "");
  PythonOptions options = options_;
  options.kernel_paths = {object};
  const auto module = emit_python(p.package, options);
  ASSERT_TRUE(module) << module.error().render();
  write("mix", *module, p.package, p.bindings);
  run_all();
  if (IsSkipped()) return;
  EXPECT_EQ(result_of("mix"), "0");
  p.set(y, {10.5, 20.5, 30.5, 40.5, 50.5, 60.5});
  expect_same("mix", p.package, p.bindings);
}

TEST_F(PythonHost, FailuresSayWhatAndWhere) {
  StepProgram p;
  const uint32_t index = p.argument("index", i64, {2}, {0, 5}), x = p.argument("x \"of\" mine\n", f32, {2}, {1, 2}),
                 y = p.output("y", f32, {3});
  p.put(package::Fill{y}, package::IndexPut{y, {index}, x, false});
  write("range", emit_python(p.package, options_).value(), p.package, p.bindings);
  StepProgram q;
  const uint32_t a = q.argument("a\xC3\xA9", f32, {2}), b = q.output("b", f32, {3});
  q.put(package::Copy{a, b});
  write("shape", emit_python(q.package, options_).value(), q.package, q.bindings);
  StepProgram r;
  const uint32_t n = r.argument("n", i32, {1}, {7});
  r.put(package::DefineSymbol{"s", n, 0, package::DefineSymbol::From::Value, 0, {}, Dim::constant(2)});
  write("divided", emit_python(r.package, options_).value(), r.package, r.bindings);
  const auto sized = [&](const char* name, double value, auto&&... steps) {
    StepProgram t;
    const uint32_t k = t.argument("k", i64, {1}, {value});
    t.put(package::DefineSymbol{"k", k, 0, package::DefineSymbol::From::Value}, steps...);
    write(name, emit_python(t.package, options_).value(), t.package, t.bindings);
  };
  package::DefineSymbol quotient{"q", 0, 0, package::DefineSymbol::From::Expression};
  quotient.value = types::parse_dim("8 + (3*k + 4) // min(k, 2) - 9 % (2*k)").value();
  const Dim q_itself = Dim::symbol("q");
  const auto is = [&](int64_t value) {
    return package::Check{package::RangeGuard{q_itself, Dim::constant(value), Dim::constant(value), {}}};
  };
  sized("whole", 4, quotient, is(8 + 16 / 2 - 1));
  sized("zero", 0, quotient);
  sized("bound", 7, package::Check{package::RangeGuard{Dim::symbol("k"), Dim(), Dim::constant(5), "`x[:k]`, line 3"}});
  StepProgram other;  // made for another architecture's processors
  other.package.target.isa = cpu_supports(CpuIsa::neon) ? CpuIsa::amx : CpuIsa::neon;
  write("foreign", emit_python(other.package, options_).value(), other.package, other.bindings);
  std::string newer = emit_python(StepProgram().package, options_).value();
  const std::string number = "_INTERFACE = 6 ";
  ASSERT_NE(newer.find(number), std::string::npos);
  write("newer", newer.replace(newer.find(number), number.size(), "_INTERFACE = 7 "), other.package, other.bindings);
  std::string other_struct = emit_python(StepProgram().package, options_).value();
  const std::string field = ", (\"of_nothing\", ctypes.c_bool)]";
  ASSERT_NE(other_struct.find(field), std::string::npos);
  write("struct", other_struct.replace(other_struct.find(field), field.size(), "]"), other.package, other.bindings);
  run_all();
  if (IsSkipped()) return;
  EXPECT_EQ(result_of("struct"), "-1 E0508: " CODETTA_TEST_HOST
                                 " has 16 bytes for a Reduction, and this module has 12: emit it again with the "
                                 "version that the library is of");
  EXPECT_EQ(result_of("newer"), "-1 E0508: " CODETTA_TEST_HOST
                                " has interface 6, and this module is emitted for 7: emit it again with the version "
                                "that the library is of");
  EXPECT_EQ(result_of("range"), "-1 E0618: index 5 is out of range for the size 3: it stands at [1] of index");
  EXPECT_EQ(result_of("shape"), "-1 E0610: a\xC3\xA9 does not fit: it is [2], and [3] is wanted");
  EXPECT_EQ(result_of("divided"), "-1 E0610: s is no whole number: 7 is divided by 2");
  EXPECT_EQ(result_of("whole").substr(0, 1), "0") << result_of("whole");
  EXPECT_EQ(result_of("zero"), "-1 E0610: a size has no value: it divides by 0");
  EXPECT_EQ(result_of("bound"), "-1 E0610: k is out of range: it is 7, and 0 to 5 is wanted; `x[:k]`, line 3");
  EXPECT_EQ(result_of("foreign"), "-1 E0403: this module is made for " +
                                      std::string(isa_name(other.package.target.isa)) +
                                      ", which this processor or system does not offer");
}

TEST_F(PythonHost, WhatIsNotCompiledIsRefused) {
  StepProgram p;
  const uint32_t x = p.argument("x", f32, {4, 4}), y = p.output("y", f32, {4, 4});
  p.put(p.product(x, x, y, Dim::constant(4), Dim::constant(4), Dim::constant(4)));
  EXPECT_TRUE(emit_python(p.package, options_));
  p.package.kernels[0].source = "void f();";
  const auto refused = emit_python(p.package, options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().diagnostics()[0].reason,
            "kernel product_0 is not compiled, and a module does not interpret");
}

TEST_F(PythonHost, TheSameBytesForTheSamePackage) {
  for (const features::Feature& feature : features::all_features()) {
    const auto once = emit_python(feature.program->package, options_),
               again = emit_python(feature.program->package, options_);
    ASSERT_EQ(once.has_value(), again.has_value());
    if (once) {
      EXPECT_EQ(*once, *again) << feature.row;
    }
  }
}

}  // namespace
}  // namespace codetta::emit::host
