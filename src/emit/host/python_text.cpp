// SPDX-License-Identifier: Apache-2.0
#include "emit/host/python_text.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"
#include "emit/host/devices.hpp"
#include "emit/host/steps.hpp"
#include "package/cpu_call.hpp"
#include "package/cpu_limits.hpp"
#include "package/gpu_call.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::host {

using namespace package;  // NOLINT: kinds of kernels

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j) three = three << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? digits[three >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string py_quoted(std::string_view text) {
  std::string body;
  bool ascii = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      body += '\\';
      body += c;
    } else if (byte >= 0x20 && byte < 0x7F) {
      body += c;
    } else {
      ascii = false;
      body += fmt::format("\\x{:02x}", byte);
    }
  }
  return ascii ? "\"" + body + "\"" : "b\"" + body + "\".decode(\"utf-8\", \"replace\")";
}

std::string py_comment(std::string_view text) {
  std::string line;
  for (const char c : text) line += c >= 0x20 && c < 0x7F ? c : '?';
  return line;
}

namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// How much of the text is its first operand: a name or a number, and what stands in parentheses behind it.
size_t operand_length(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && in_name(text[end])) ++end;
  if (end == text.size() || text[end] != '(') return end;
  for (int depth = 0; end < text.size(); ++end) {
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    if (depth == 0) return end + 1;
  }
  return end;
}

// The text of a size, which is Python already but for the symbols, and for what a divisor of 0 gives.
std::string py_size(std::string_view text, const std::function<std::string(const std::string&)>& name_of) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool divides = result.ends_with("// ") || result.ends_with("% ");
    const bool number = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    if (divides && !number && text[i] != '-') {
      const size_t length = operand_length(text.substr(i));
      result += "_divisor(" + py_size(text.substr(i, length), name_of) + ")";
      i += length;
      continue;
    }
    if (number || !in_name(text[i])) {
      result += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string word(text.substr(i, end - i));
    result += end < text.size() && text[end] == '(' ? word : name_of(word);
    i = end;
  }
  return result;
}

}  // namespace

std::string py_expression(const types::Dim& dim, const std::function<std::string(const std::string&)>& name_of) {
  const std::string result = py_size(dim.to_string(), name_of);
  return result.find(' ') == std::string::npos ? result : "(" + result + ")";
}

std::string gpu_kernel_row(const package::Kernel& kernel) {
  if (is_user(kernel.config)) {
    const std::string& symbol = kernel.entries[0].symbol;
    return fmt::format("    (b\"{}\", {}, None,  # of the user's\n     ((2, 0, {}, 1, 0, 1), ), (), (), (), 0),\n",
                       base64(kernel.binary), py_quoted(kernel.name), py_quoted(symbol));
  }
  const auto* map = std::get_if<GpuMapConfig>(&kernel.config);
  const GpuGemmConfig c = map != nullptr ? pieces_of(*map) : package::gpu(kernel.config);
  const EpilogueProgram& e = kernel.epilogue;
  const auto number = [](auto value) { return static_cast<int>(value); };
  bool keeps = false;
  for (size_t p = 1; p < e.phases.size(); ++p) keeps |= e.phases[p].reads_accumulator && !c.whole_rows;
  std::string text = fmt::format(
      "    (b\"{}\", {},\n     ({}, {}, {}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {:d}, {}, ",
      base64(kernel.binary), py_quoted(kernel.name), number(c.family), number(c.a_dtype), number(c.b_dtype),
      map == nullptr, c.a_k_major, c.b_k_major, map == nullptr && c.pack_a, map == nullptr && c.pack_b, c.persistent,
      c.stream_k, keeps, map == nullptr && rows_fold_by_slots(e), missing_when(e, map == nullptr));
  text += fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {:d}, {:d}),\n     (",
                      dtype_size(c.accumulator), c.tile_m, c.tile_n, c.tile_k, c.cluster_m, c.cluster_n, c.k_split,
                      c.group, c.alignment, c.piece_rows, c.piece_cols, e.split.ways, bytes_of_loads(e), c.spread_a,
                      c.a_rows, c.combines, c.whole_rows);
  for (const GpuEntry& entry : kernel.entries)
    text += fmt::format("({}, {}, {}, {}, {}, {}), ", number(entry.kind), entry.index, py_quoted(entry.symbol),
                        entry.threads, entry.shared_bytes, entry.results_per_block);
  text += "),\n     (";
  for (const CudaTensorMap& one : kernel.maps)
    text += fmt::format("({}, {:d}, {}, {}, {}, {}), ", number(one.source), one.column_major, one.operand, one.box_fast,
                        one.box_slow, one.swizzle_bytes);
  text += "), (";
  for (const Reduction& r : e.reductions)
    text += fmt::format("({}, {}, {}, {}), ", number(r.axis), r.phase, dtype_size(r.type), package::values_of(r.kind));
  text += "), (";
  for (const Operand& operand : e.operands) {
    const auto index = static_cast<size_t>(&operand - e.operands.data());
    const package::FoldSlots slots = package::fold_slots_of(e, index);
    text += fmt::format("({}, {:d}, {:d}, {:d}), ", number(operand.dtype), operand.is_store, slots.batch, slots.row);
  }
  text += fmt::format("), {}),\n", e.scalar_count());
  return text;
}

size_t ModuleParts::kernel(std::string row) {
  const auto at = std::find(kernels.begin(), kernels.end(), row) - kernels.begin();
  if (static_cast<size_t>(at) == kernels.size()) kernels.push_back(std::move(row));
  return static_cast<size_t>(at);
}

size_t ModuleParts::constant(const std::string& bytes) {
  const auto [at, fresh] = constant_of.emplace(bytes, constant_of.size());
  if (fresh) constants += fmt::format("    {}: b\"{}\",\n", at->second, base64(bytes));
  return at->second;
}

std::string cpu_kernel_row(const package::Kernel& kernel, const std::string& path) {
  return fmt::format("    ({}, {}),  # {}\n", path.empty() ? "b\"" + base64(kernel.binary) + "\"" : py_quoted(path),
                     py_quoted(kernel.source.empty() ? "" : kernel.symbol), py_comment(kernel.name));
}

std::string module_head(const Package& package) {
  const bool gpu = package.target.backend != Backend::cpu;
  std::string text;
  const auto add = [&](const char* file, bool wanted) {
    if (!wanted) return;
    const device::EmbeddedFile* found = device::find_file(file);
    text += (text.empty() ? "" : "\n\n") + std::string(found == nullptr ? std::string_view() : found->text);
  };
  add("host/program.py", true);
  add("host/program_cuda.py", gpu);
  add("host/program_cuda_devices.py", devices_of(package) > 1);
  add("host/program_cuda_user.py", gpu && has_gpu_user(package));
  return text;
}

std::string module_functions(const ModuleFunctions& of) {
  const bool gpu = !of.with_call.empty();
  std::string runs = "_run, ";
  for (size_t i = 1; i <= of.others; ++i) runs += fmt::format("_run_{}, ", i);
  const std::string called =
      of.others == 0 ? fmt::format(
                           "    try:\n        {2}_run({0}{1})\n        return 0\n    except HostError as error:\n"
                           "        _last.text = str(error)\n        return -1\n",
                           of.parameters, of.sizes_given, gpu ? of.with_call + "            " : "")
                     : fmt::format(
                           "    for run in ({2}):  # the later ones rely on less\n        try:\n"
                           "            {3}run({0}{1})\n            return 0\n"
                           "        except HostError as error:\n            _last.text = str(error)\n"
                           "            if not error.unaligned:\n                break\n    return -1\n",
                           of.parameters, of.sizes_given, runs, gpu ? of.with_call + "                " : "");
  return fmt::format(
      "\n\ndef init():\n    \"\"\"Loads the engine and the kernels: 0, or -1 with the text in "
      "get_last_error().\"\"\"\n"
      "    try:\n        _loaded(ENGINE, KERNELS{4})\n        return 0\n    except HostError as error:\n"
      "        _last.text = str(error)\n    except (OSError, AttributeError) as error:\n"
      "        _last.text = f\"E0508: {{error}}\"\n    return -1\n\n\n"
      "def call({0}{1}stream=None):\n    \"\"\"Runs the program: 0, or -1 with the text in "
      "get_last_error().{5}\"\"\"\n"
      "    if init() != 0:\n        return -1\n{3}\n\n"
      "def _run({0}{2}):\n",
      of.parameters, of.sizes, of.sizes_given, called, gpu ? "" : ", ISA", of.notes);
}

std::string device_note(const Package& package) {
  std::string others;
  for (size_t i = 0; i < package.buffers.size(); ++i) {
    const Buffer& b = package.buffers[i];
    const bool passed = b.role == Buffer::Role::Argument || b.role == Buffer::Role::Output;
    if (passed && !b.is_scalar && b.device != 0)
      others += fmt::format("{}a{} on device {}", others.empty() ? ", but for " : ", ", i, b.device);
  }
  return fmt::format(" It uses {} devices; tensors lie on device 0{}.", devices_of(package), others);
}

bool is_work(const package::Step& step) {
  const auto holds = [&]<class... S>() { return (std::holds_alternative<S>(step) || ...); };
  const auto* const check = std::get_if<package::Check>(&step);
  return holds.operator()<LaunchKernel, Copy, Fill, CallExtern, IndexPut, Scatter, Reuse, If, While, Return>() ||
         (check != nullptr &&
          (std::holds_alternative<NanGuard>(check->guard) || std::holds_alternative<IndexGuard>(check->guard)));
}

bool numpy_adds(DType dtype) {
  return dtype != DType::bf16 && dtype != DType::f8e4m3 && dtype != DType::f8e5m2 && dtype != DType::boolean;
}

Result<void> check_kernels(const Package& p, const std::vector<std::string>& paths) {
  const bool gpu = p.target.backend != Backend::cpu;
  if (p.target.backend != Backend::cpu && p.target.backend != Backend::cuda) {
    return diag::error(diag::Code::step_unsupported, "package has no form as a Python module")
        .reason(fmt::format("it is for {}", p.target.to_string()))
        .help("build it for a CPU or for CUDA");
  }
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    const package::Kernel& kernel = p.kernels[i];
    if (gpu) {
      const bool compiled = is_gpu(kernel.config) && !is_vendor(kernel.config) && !kernel.binary.empty();
      if (compiled) continue;
      return diag::error(diag::Code::step_unsupported, "package has no form as a Python module")
          .reason(fmt::format("kernel {} {}", kernel.name,
                              is_vendor(kernel.config) ? "is one of the vendor's library" : "is not compiled"))
          .help("compile the package first, without kernels of the vendor's");
    }
    if (kernel.epilogue.phases.size() > max_cpu_phases || kernel.epilogue.reductions.size() > max_cpu_reductions) {
      return diag::error(diag::Code::step_unsupported, "package has no form as a Python module")
          .reason(fmt::format("kernel {} has more phases or reductions than an engine takes", kernel.name))
          .help("split it in several");
    }
    const bool plain = kernel.source.empty() && !is_map(kernel.config) && only_stores(kernel.epilogue);
    if (plain || !paths[i].empty() || !kernel.binary.empty()) continue;
    return diag::error(diag::Code::step_unsupported, "package has no form as a Python module")
        .reason(fmt::format("kernel {} is not compiled, and a module does not interpret", kernel.name))
        .help("compile the package first");
  }
  return {};
}

std::string module_constants(const Package& p, const PythonOptions& o, const ModuleParts& shared) {
  const bool gpu = p.target.backend != Backend::cpu;
  std::string text;
  text += fmt::format("NAME = {}\nPARAMETERS = (", py_quoted(p.name));
  for (const Buffer& b : p.buffers) {
    if (b.role == Buffer::Role::Argument || b.role == Buffer::Role::Output) text += py_quoted(b.name) + ", ";
  }
  text += fmt::format(")\nENGINE = {}\n", py_quoted(o.engine));
  if (gpu) {
    const std::string& arch = p.target.arch;
    int number = 0;
    for (const char c : arch) number = c >= '0' && c <= '9' ? 10 * number + (c - '0') : number;
    text += fmt::format("ARCHITECTURE = {}\nCAPABILITY = ({}, {}, {})\n", py_quoted(arch), number / 10, number % 10,
                        arch.ends_with('a') ? "True" : "False");
  } else {
    text +=
        fmt::format("ISA = ({}, {})\n", static_cast<int>(p.target.isa), py_quoted(std::string(isa_name(p.target.isa))));
  }
  text += "KERNELS = (\n";
  for (const std::string& row : shared.kernels) text += row;
  text += ")\n_CONSTANTS = {\n" + shared.constants;
  text += "}\nexterns = {}\nweights = {}\n";
  return text;
}

}  // namespace codetta::emit::host
