// SPDX-License-Identifier: Apache-2.0
// Run when the tests are built, on the build machine: examples of epilogues emitted for NEON, with operands, and with
// what the oracle admits for every element of every output (its intervals come from ulp.def). The tape's results must
// lie there as well. What comes out is compiled for AArch64.
//   neon_cases EXAMPLES FOLDER NAME...          examples
//   neon_cases --units COMMIT COUNT FOLDER      units of the numerics matrix that the commit picks, named in
//   FOLDER/names
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "driver/kernel_state.hpp"
#include "numerics/unit.hpp"
#include "oracle/oracle.hpp"
#include "package/cpu_call.hpp"
#include "runtime/launch.hpp"
#include "runtime/operands.hpp"
#include "support/slice.hpp"

namespace codetta {
namespace {

class Writer {
 public:
  explicit Writer(std::string folder) : folder_(std::move(folder)) {}

  // Whether all went well.
  bool add_example(const std::string& name, const std::string& example);
  bool add_unit(const std::string& name, const numerics::Unit& unit, uint64_t seed);
  bool finish() const {
    return write("cases.bin", bytes_) && write("cases.inc", data_ + "const Case cases[] = {\n" + cases_ + "};\n");
  }

 private:
  bool add(const std::string& name, const cli::GemmOptions& options);
  bool write(const std::string& name, const std::string& text) const {
    std::ofstream file(folder_ + "/" + name, std::ios::binary);
    file << text;
    return static_cast<bool>(file);
  }
  // The assembler takes an array's bytes from a file: a compiler reads numbers far more slowly. Returns its name.
  std::string bytes_of(const std::string& name, const void* data, size_t size,
                       const std::string& type = "unsigned char") {
    bytes_.resize((bytes_.size() + 63) / 64 * 64);
    const std::string from = size == 0 ? ".zero 1"  // none of .incbin are all that is left
                                       : ".incbin \\\"" + folder_ + "/cases.bin\\\", " + std::to_string(bytes_.size()) +
                                             ", " + std::to_string(size);
    data_ += "asm(\".pushsection .data\\n.balign 64\\n.globl " + name + "\\n" + name + ":\\n" + from +
             "\\n.popsection\");\nextern \"C\" " + type + " " + name + "[];\n";
    bytes_.append(static_cast<const char*>(data), size);
    return name;
  }

  std::string folder_, data_, cases_, bytes_;
};

std::string text_of(int64_t value) { return std::to_string(value) + "ll"; }
uint64_t bits_of(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

types::Scalar scalar_of(const ArgumentValue& value, DType dtype) {
  if (const auto* flag = std::get_if<bool>(&value.value())) return types::Scalar::from_bool(*flag);
  if (const auto* integer = std::get_if<int64_t>(&value.value())) return types::Scalar::from_i64(*integer, dtype);
  return types::Scalar::from_f64(std::get<double>(value.value()), dtype);
}

Result<oracle::OracleResult> expected_of(const driver::Problem& problem, const oracle::OracleOptions& options) {
  std::vector<oracle::OracleInput> inputs;
  for (size_t i = 0; i < problem.bound.inputs().size(); ++i) {
    const ir::GraphInput& input = problem.bound.inputs()[i];
    if (i >= 2 && input.is_scalar) {
      inputs.emplace_back(scalar_of(problem.scalars.at(input.name), problem.bound.type(input.node).dtype));
    } else {
      inputs.emplace_back(i == 0 ? problem.a : i == 1 ? problem.b : problem.tensors.at(input.name));
    }
  }
  return oracle::evaluate(problem.bound, inputs, options);
}

bool failed(const std::string& name, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), why.c_str());
  return false;
}

bool Writer::add_example(const std::string& name, const std::string& example) {
  cli::GemmOptions options;
  options.m = 13;
  options.k = 19;
  if (std::ifstream text(example);
      std::string(std::istreambuf_iterator<char>(text), {}).find(" N=") == std::string::npos)
    options.n = 37;
  if (name.find("int8") != std::string::npos) options.dtype = "i8";
  options.epilogue = example;
  return add(name, options);
}

bool Writer::add_unit(const std::string& name, const numerics::Unit& unit, uint64_t seed) {
  const auto dims = [](const Dims& shape) {
    std::string text;
    for (const int64_t size : shape) text += (text.empty() ? "[" : ",") + std::to_string(size);
    return text.empty() ? std::string("[]") : text + "]";
  };
  const auto described = [&](const auto& tensor) {
    return tensor.name + "=" + dims(tensor.shape) + ":" + std::string(dtype_name(tensor.dtype));
  };
  cli::GemmOptions options;
  options.m = unit.m;
  options.n = unit.n;
  options.k = unit.k;
  if (unit.batch != 0) options.batch = unit.batch;
  options.dtype = dtype_name(unit.a);
  options.b_dtype = dtype_name(unit.b);
  options.epilogue = unit.text;
  options.seed = seed;
  for (const numerics::Operand& operand : unit.operands) options.tensors.push_back(described(operand));
  for (const numerics::Output& output : unit.outputs) options.outputs.push_back(described(output));
  return add(name, options) || failed(unit.name, "is not made");
}

bool Writer::add(const std::string& name, const cli::GemmOptions& options) {
  auto problem = cli::build_problem(options);
  if (!problem) return failed(name, problem.error().render());
  cli::fill_data(*problem);
  Context context = *Context::make({.cache_enabled = false, .no_compiler = true, .threads = 1});
  const auto kernels = find_kernels(problem->arguments, *Target::parse("cpu:neon"), {}, context);
  if (!kernels) return failed(name, kernels.error().render());
  if (kernels->empty()) return failed(name, "no kernel");
  const driver::KernelState& state = driver::KernelState::of((*kernels)[0]);
  const auto package = state.package();
  if (!package) return failed(name, package.error().render());
  const package::Kernel& kernel = (*package)->kernels.at(0);
  const driver::Problem& bound = state.found->problem;
  const plan::GemmShape& shape = bound.shape;
  auto bindings = driver::make_bindings(**package, bound);
  if (!bindings) return failed(name, bindings.error().render());

  // The host's tape, on the same operands.
  const auto tape = find_kernels(problem->arguments, *Target::parse("cpu:generic"), {}, context);
  if (!tape || !(*tape)[0].run(problem->arguments)) return failed(name, "the tape does not run");
  const auto judged = verify(problem->arguments, {}, *Target::parse("cpu:generic"), 1, context);
  if (!judged || judged->verdict == VerifyReport::Verdict::Fail)
    return failed(name, judged ? judged->text : judged.error().render());

  oracle::OracleOptions how;
  how.isa = CpuIsa::neon;
  const auto expected = expected_of(bound, how);
  if (!expected) return failed(name, expected.error().render());

  const package::LaunchKernel* launch = nullptr;
  runtime::Symbols symbols;
  for (const package::Step& step : (*package)->steps) {
    if (const auto* one = std::get_if<package::LaunchKernel>(&step)) launch = one;
    const auto* symbol = std::get_if<package::DefineSymbol>(&step);
    if (symbol != nullptr && !runtime::define_symbol(**package, *symbol, bindings->tensors[symbol->buffer], symbols))
      return failed(name, "a symbol has two values");
  }
  const package::EpilogueProgram& program = kernel.epilogue;
  const auto chunk = runtime::value_of(program.split.chunk, symbols, "the chunk");
  if (launch == nullptr || !chunk || kernel.source.empty()) return failed(name, "nothing is launched");

  const std::string id = "c_" + name;
  const auto array_of = [&](size_t buffer) { return id + "_" + std::to_string(buffer); };
  for (size_t i = 0; i < (*package)->buffers.size(); ++i) {
    const package::Buffer& buffer = (*package)->buffers[i];
    if (buffer.is_scalar) continue;
    const TensorView& view = bindings->tensors[i];
    const auto size = static_cast<size_t>(view.element_count() * dtype_size(view.dtype()));
    if (buffer.role == package::Buffer::Role::Output) {
      bytes_of(array_of(i), std::string(size, '\xa5').data(), size);
    } else {
      bytes_of(array_of(i), view.data(), size);
    }
  }
  std::string operands, scalars, phases, reductions;
  for (const package::Operand& operand : program.operands) {
    runtime::OperandPlan plan;
    if (const auto planned = runtime::plan_operand(operand, symbols, plan); !planned)
      return failed(name, planned.error().render());
    const uint32_t buffer = launch->arguments[operand.argument];
    const TensorView& view = bindings->tensors[buffer];
    const cpu::Operand resolved = runtime::resolve_operand(operand, plan, view);
    operands += "{" + array_of(buffer) + " + " +
                text_of(static_cast<const std::byte*>(resolved.data) - static_cast<const std::byte*>(view.data())) +
                ", {";
    for (const cpu::i64 stride : resolved.stride) operands += text_of(stride) + ",";
    operands += "}},\n";
  }
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const uint32_t buffer = launch->arguments[i];
    scalars +=
        "{.u = " + std::to_string((*package)->buffers[buffer].is_scalar ? bindings->scalars[buffer].u : 0) + "ull},";
  }
  for (size_t i = 0; i < program.phases.size(); ++i) {
    const package::Phase& phase = program.phases[i];
    const int scope = phase.scope == package::Scope::Tile ? 0 : phase.scope == package::Scope::RowPanel ? 1 : 2;
    phases += "{" + std::to_string(scope) + "," + std::to_string(static_cast<int>(package::space_of(program, i))) +
              (phase.reads_accumulator ? ",true}," : ",false},");
  }
  for (const package::Reduction& r : program.reductions) {
    reductions += "{" + std::to_string(static_cast<int>(r.kind)) + "," + std::to_string(static_cast<int>(r.axis)) +
                  "," + std::to_string(static_cast<int>(r.type)) + (r.mean ? ",true," : ",false,") +
                  std::to_string(r.phase) + "," + std::to_string(r.parts) + ",false},";
  }
  std::string outputs;
  for (const oracle::ExpectedOutput& output : expected->outputs) {
    size_t buffer = 0;
    while (buffer < (*package)->buffers.size() && ((*package)->buffers[buffer].name != output.name ||
                                                   (*package)->buffers[buffer].role != package::Buffer::Role::Output))
      ++buffer;
    if (!output.whole || buffer == (*package)->buffers.size()) return failed(name, "an output is not there");
    std::vector<uint64_t> low, high;
    std::string nan;
    for (const oracle::ExpectedElement& e : output.elements) {
      const bool real = types::is_float(output.dtype);
      low.push_back(real ? bits_of(e.low) : static_cast<uint64_t>(e.exact_low));
      high.push_back(real ? bits_of(e.high) : static_cast<uint64_t>(e.exact_high));
      nan += e.may_be_nan ? '\1' : '\0';
    }
    const std::string of = array_of(buffer);
    bytes_of(of + "_low", low.data(), low.size() * sizeof low[0], "const u64");
    bytes_of(of + "_high", high.data(), high.size() * sizeof high[0], "const u64");
    bytes_of(of + "_nan", nan.data(), nan.size(), "const unsigned char");
    outputs += "{\"" + output.name + "\", " + of + ", DType(" + std::to_string(static_cast<int>(output.dtype)) + "), " +
               text_of(static_cast<int64_t>(output.elements.size())) + ", " + of + "_low, " + of + "_high, " + of +
               "_nan},";
  }
  const package::CpuGemmConfig& c = package::cpu(kernel.config);
  const auto number = [](auto value) { return std::to_string(static_cast<int64_t>(value)) + ","; };
  const std::string config = "{" + number(c.family) + number(c.isa) + number(c.a_dtype) + number(c.b_dtype) +
                             number(c.accumulator) + (c.pack_a ? "true," : "false,") + number(c.mr) + number(c.nr) +
                             number(c.tile_rows) + number(c.tile_cols) + number(c.kc) + number(c.mc) + number(c.nc) +
                             number(c.k_split) + "}";
  const std::string gemm = "{" + number(shape.batch) + number(shape.m) + number(shape.n) + number(shape.k) +
                           array_of(launch->product->a) + "," + number(shape.a_batch_stride) +
                           number(shape.a_row_stride) + number(shape.a_k_stride) + array_of(launch->product->b) + "," +
                           number(shape.b_batch_stride) + number(shape.b_k_stride) + number(shape.b_col_stride) +
                           "0,0,0,nullptr," + number(program.split.ways) + number(*chunk) + "}";
  const std::string function = "codetta_epilogue_" + name;
  data_ += "extern \"C\" void " + function + "(const cpu::EpilogueArgs*, const cpu::Tile*);\n";
  data_ += "const cpu::Operand " + id + "_operands[] = {\n" + operands + "};\nconst cpu::ScalarValue " + id +
           "_scalars[] = {" + (scalars.empty() ? "{.u = 0}" : scalars) + "};\nconst Phase " + id + "_phases[] = {" +
           phases + "};\nconst Reduction " + id + "_reductions[] = {" +
           (reductions.empty() ? "{0,0,0,false,0,0,false}" : reductions) + "};\nconst Output " + id + "_outputs[] = {" +
           outputs + "};\n";
  cases_ += "{\"" + name + "\", \"" + kernel.name + "\", " + config + ", " + gemm + ", {" + function + ", nullptr, " +
            id + "_operands, " + id + "_scalars, " + id + "_phases, " + id + "_reductions, " +
            number(program.phases.size()) + number(program.reductions.size()) + "nullptr, 0, 0}, " + id + "_outputs, " +
            std::to_string(expected->outputs.size()) + "},\n";
  std::string flags;
  for (const std::string& flag : kernel.gcc_flags) flags += flag + "\n";
  return write(name + ".cpp", kernel.source) && write(name + ".rsp", flags);
}

}  // namespace
}  // namespace codetta

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--units") {
    std::vector<codetta::numerics::Unit> units = codetta::numerics::operation_units();
    std::erase_if(units, [](const codetta::numerics::Unit& unit) { return unit.refused; });
    const uint64_t slice = codetta::test::slice_of(argv[2]), count = std::max(1, std::atoi(argv[3]));
    const uint64_t step = std::max<uint64_t>(1, units.size() / count);
    codetta::Writer writer(argv[4]);
    std::ofstream names(std::string(argv[4]) + "/names");
    for (uint64_t i = slice % step; i < units.size(); i += step) {
      const std::string name = "unit_" + std::to_string(i);
      if (!writer.add_unit(name, units[i], slice + i)) return 1;
      names << name << "\n";
    }
    return writer.finish() && names ? 0 : 1;
  }
  if (argc < 4) return 2;
  codetta::Writer writer(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::string name = argv[i];
    if (!writer.add_example(name, std::string(argv[1]) + "/" + name + ".py")) return 1;
  }
  return writer.finish() ? 0 : 1;
}
