// SPDX-License-Identifier: Apache-2.0
// A kernel of the user's as a translation unit: what its parameters are made of, its source under its own name and line
// numbers, and the function that the executor calls.
#include <algorithm>

#include <fmt/format.h>

#include "device/embedded.hpp"
#include "emit/emit.hpp"
#include "emit/user_hook.hpp"
#include "package/user_source.hpp"
#include "plan/user_hook.hpp"
#include "types/machine.hpp"

namespace codetta::emit {
namespace {

std::string_view element_type(DType dtype) { return plan::user_element_type(dtype); }

std::string users_text(const plan::UserSource& user, std::string_view ending) {
  return fmt::format("{}#line 1 \"{}\"\n{}{}{}\"\n", package::users_text_begins, package::line_name(user.file),
                     user.source, package::users_text_ends, ending);
}

// A parameter of a __global__ function as device/gpu/user.h checks it, and as people write it.
struct GpuParameter {
  std::string check, text;
};
GpuParameter gpu_parameter(const package::Argument& argument) {
  const std::string type(element_type(argument.dtype));
  if (argument.is_scalar) return {fmt::format("Number<{}>", type), type};
  if (argument.is_output) return {fmt::format("Result<{}>", type), type + "*"};
  return {fmt::format("Operand<{}>", type), fmt::format("const {}*", type)};
}

}  // namespace

namespace {

// A parameter of the user's function: an argument of the kernel, or what stands for a result.
struct UserParameter {
  const package::Argument* argument = nullptr;  // null: the hook
  size_t index = 0;                             // of the argument
};
std::vector<UserParameter> parameters_of(const std::vector<package::Argument>& arguments, const plan::UserHook* hook) {
  std::vector<UserParameter> parameters;
  for (size_t a = 0; a < arguments.size(); ++a) {
    if (hook != nullptr && parameters.size() == hook->position) parameters.emplace_back();
    const bool of_epilogue = hook != nullptr && a >= hook->operands && a < hook->operands + hook->reads + hook->stores;
    if (!of_epilogue) parameters.push_back({&arguments[a], a});
  }
  if (hook != nullptr && parameters.size() == hook->position) parameters.emplace_back();
  return parameters;
}
std::string hook_type(const plan::UserHook& hook) {
  return fmt::format("Hook<{}, {}>", element_type(hook.dtype), hook.shape.size());
}

}  // namespace

std::string user_signature(const std::string& name, const std::vector<package::Argument>& arguments,
                           const plan::UserHook* hook) {
  std::string text;
  for (const auto& [argument, index] : parameters_of(arguments, hook)) {
    if (!text.empty()) text += ", ";
    if (argument == nullptr) {
      text += hook_type(*hook);
    } else if (!argument->is_output && argument->shape.empty()) {
      text += element_type(argument->dtype);
    } else {
      text += fmt::format("Tensor<{}{}, {}>", argument->is_output ? "" : "const ", element_type(argument->dtype),
                          argument->shape.size());
    }
  }
  return fmt::format("void {}({})", name, text);
}

namespace {

// Meta-parameters as macros.
std::string definitions_of(const plan::UserConfiguration& chosen) {
  std::string text;
  for (const auto& [meta, value] : chosen.values)
    text += value < 0 ? fmt::format("#define {} ({})\n", meta, value) : fmt::format("#define {} {}\n", meta, value);
  return text;
}

}  // namespace

Result<EmittedSource> emit_cpu_user(const plan::UserSource& user, const package::EpilogueProgram& program,
                                    const plan::UserHook* hook, const plan::UserConfiguration& chosen,
                                    const CpuEmitOptions& options) {
  const std::vector<package::Argument>& arguments = program.arguments;
  HookText hooked;
  if (hook != nullptr) {
    CODETTA_TRY(hooked, cpu_hook(program, *hook, options));
  }
  const auto all_inputs = static_cast<size_t>(
      std::count_if(arguments.begin(), arguments.end(), [](const package::Argument& a) { return !a.is_output; }));
  std::string call;
  for (const auto& [argument, index] : parameters_of(arguments, hook)) {
    if (!call.empty()) call += ", ";
    if (argument == nullptr) {
      call += hooked.argument;
      continue;
    }
    const std::string from =
        argument->is_output ? fmt::format("out[{}]", index - all_inputs) : fmt::format("in[{}]", index);
    const std::string_view type = element_type(argument->dtype);
    if (!argument->is_output && argument->shape.empty()) {
      call += fmt::format("codetta::detail::value<const {}>({})", type, from);
    } else {
      call += fmt::format("codetta::detail::tensor<{}{}, {}>({})", argument->is_output ? "" : "const ", type,
                          argument->shape.size(), from);
    }
  }
  const auto embedded = [](std::string_view path) {
    const device::EmbeddedFile* file = device::find_file(path);
    return fmt::format("#line 1 \"codetta/device/{}\"\n{}", path, file == nullptr ? std::string_view() : file->text);
  };
  // What follows a hook is rounded as it would be in a kernel of its own. Kernels are named by their texts, which say
  // it.
  const bool strict = hook != nullptr && options.strict;
  EmittedSource out;
  out.entry = "codetta_user";
  out.text = fmt::format("// Generated by Codetta: the user's kernel {}{}.\n{}{}", user.name, strict ? ", strict" : "",
                         hooked.before, embedded("cpu/user.h"));
  if (hook != nullptr)
    out.text += "\n" + embedded("cpu/hook.h") + hooked.between;
  else if (plan::has_hooks(user))
    out.text += "\n" + embedded("cpu/hook.h") + "\n" + embedded("cpu/hook_of_others.h");
  out.text += "\n" + definitions_of(chosen) + users_text(user, "cpp");
  for (const auto& [meta, value] : chosen.values) out.text += fmt::format("#undef {}\n", meta);  // of the source alone
  out.text += fmt::format(
      "// {}\nextern \"C\" CODETTA_FOUND int codetta_user(void*, const codetta::detail::Given* in, int, "
      "codetta::detail::Given* out, int) {{\n  static_cast<void>(in);\n{}  return "
      "codetta::detail::status((::{}({}), codetta::detail::Done{{}}));\n}}\n",
      user_signature(user.name, arguments, hook), hooked.entry, user.name, call);
  out.text += fmt::format("extern \"C\" CODETTA_FOUND const char {0}[33];\nconst char {0}[33] = \"{1}\";\n",
                          entry_digest_symbol, entry_digest_placeholder);
  std::vector<std::string> flags = {"-std=c++20",
                                    "-O3",
                                    strict ? "-ffp-contract=off" : "-ffp-contract=fast",
                                    "-fno-math-errno",
                                    "-fno-exceptions",
                                    "-fvisibility=hidden",
                                    "-Wno-psabi"};
  if (hook != nullptr) flags.emplace_back("-fno-strict-aliasing");
  for (const std::string& flag : cpu_flags(options.isa)) flags.push_back(flag);
  out.clang_flags = flags;
  flags.emplace_back("-fwhole-program");
  flags.emplace_back("-ftrack-macro-expansion=0");  // what it says of a meta-parameter, it says where that is used
  out.gcc_flags = std::move(flags);
  return out;
}

Result<EmittedSource> emit_gpu_user(const plan::UserSource& user, const package::EpilogueProgram& program,
                                    const plan::UserHook* hook, const plan::UserConfiguration& chosen,
                                    const package::GpuUserConfig& config, const CudaEmitOptions& options) {
  std::string checks, text;
  const auto add = [&](const GpuParameter& parameter) {
    checks += ", codetta::user::" + parameter.check;
    text += (text.empty() ? "" : ", ") + parameter.text;
  };
  const std::vector<package::TensorMap>& maps = chosen.options.maps;
  for (const auto& [argument, index] : parameters_of(program.arguments, hook)) {
    if (argument == nullptr) {
      add({fmt::format("HookOf<{}, {}>", element_type(hook->dtype), hook->shape.size()), hook_type(*hook)});
      continue;
    }
    const bool mapped =
        std::any_of(maps.begin(), maps.end(), [i = index](const package::TensorMap& map) { return map.argument == i; });
    add(mapped ? GpuParameter{"Map", "const __grid_constant__ TensorMap"} : gpu_parameter(*argument));
  }
  for (size_t i = 0; i + static_cast<size_t>(config.hook_sizes) < chosen.options.sizes.size(); ++i) {
    const bool narrow = (config.narrow >> i & 1) != 0;
    add(narrow ? GpuParameter{"Number<int32_t>", "int32_t"} : GpuParameter{"Number<int64_t>", "int64_t"});
  }
  const bool hip = options.arch.starts_with("gfx");
  const std::string_view language = hip ? "hip" : "cuda", ending = hip ? "hip" : "cu";
  const bool strict = hook != nullptr && options.strict;
  EmittedSource out;
  out.entry = user.name;
  out.text = fmt::format("// Generated by Codetta: the user's kernel {}{}.\n#include \"device/{}/user.h\"\n", user.name,
                         strict ? ", strict" : "", language);
  if (hook != nullptr) {
    CODETTA_TRY(const HookText hooked, gpu_hook(program, *hook, options.comments));
    out.text += hooked.between;
  }
  out.text += definitions_of(chosen) + users_text(user, ending);
  for (const auto& [meta, value] : chosen.values) out.text += fmt::format("#undef {}\n", meta);  // of the source alone
  out.text += fmt::format(
      "extern \"C\" __global__ decltype({0}) {0};  // names are looked up as they are written: extern \"C\"\n"
      "static_assert(codetta::user::takes<decltype(&{0}){1}>,\n              \"the kernel has to be: extern \\\"C\\\" "
      "__global__ void {0}({2})\");\n",
      user.name, checks, text);
  out.gcc_flags = gpu_compiler_flags({.arch = options.arch, .strict = strict});
  if (!hip) out.gcc_flags.emplace_back("--diag-suppress=161");  // pragmas that a compiler does not know: ours
  return out;
}

}  // namespace codetta::emit
