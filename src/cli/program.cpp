// SPDX-License-Identifier: Apache-2.0
// run: a program over files.
#include <cstdio>
#include <map>

#include "cli/verbs.hpp"

namespace codetta::cli {
namespace {

struct Loaded {
  std::vector<Tensor> owned;
  std::vector<NamedArgument> arguments;
};

std::pair<std::string, std::string> split_name(const std::string& item) {
  const size_t equals = item.find('=');
  if (equals == std::string::npos) return {"", item};
  return {item.substr(0, equals), item.substr(equals + 1)};
}

// "f32[batch, 10]" with the sizes that the inputs gave.
Result<Tensor> make_output(const ProgramParameter& output, const std::map<std::string, int64_t>& sizes) {
  const size_t bracket = output.type.find('[');
  const auto dtype = dtype_from_name(output.type.substr(0, bracket));
  Dims shape;
  std::string term;
  for (const char c : bracket == std::string::npos ? std::string() : output.type.substr(bracket + 1)) {
    if (c != ',' && c != ']') {
      if (c != ' ') term += c;
      continue;
    }
    if (const auto known = sizes.find(term); known != sizes.end()) {
      shape.push_back(known->second);
    } else {
      char* end = nullptr;
      const long long value = std::strtoll(term.c_str(), &end, 10);
      if (term.empty() || *end != '\0') {
        return usage_error("the size of output " + output.name + " is not known", "it is " + output.type,
                           "use plain symbols in the program's types");
      }
      shape.push_back(value);
    }
    term.clear();
  }
  return Tensor::make(dtype.value_or(f32), shape);
}

Result<void> load_inputs(const Program& program, const ProgramOptions& options, Loaded& loaded,
                         std::map<std::string, int64_t>& sizes) {
  for (const std::string& item : options.tensors) {
    const auto [name, file] = split_name(item);
    if (name.empty())
      return usage_error("'" + item + "' is not NAME=FILE", "given to --tensor", "write --tensor x=x.npy");
    auto tensor = read_npy(file);
    if (!tensor) return std::move(tensor).error();
    for (const ProgramParameter& parameter : program.parameters()) {
      if (parameter.name != name) continue;
      const size_t bracket = parameter.type.find('[');
      std::string term;
      int dim = 0;
      for (const char c : parameter.type.substr(bracket + 1)) {
        if (c != ',' && c != ']') {
          if (c != ' ') term += c;
          continue;
        }
        if (dim < tensor->view().rank()) sizes.emplace(term, tensor->view().size(dim));
        term.clear();
        ++dim;
      }
    }
    loaded.owned.push_back(*std::move(tensor));
    loaded.arguments.push_back({name, loaded.owned.back().view()});
  }
  return {};
}

}  // namespace

int run_program(const CommonOptions& common, const ProgramOptions& options) {
  auto source = read_source(options.file);
  if (!source) return report(source.error(), common.json);
  auto program = Program::parse(source->text, source->name);
  if (!program) return report(program.error(), common.json);
  auto target = target_of(common);
  if (!target) return report(target.error(), common.json);
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  Loaded loaded;
  std::map<std::string, int64_t> sizes;
  if (auto ok = load_inputs(*program, options, loaded, sizes); !ok) return report(ok.error(), common.json);
  std::vector<std::pair<std::string, TensorView>> results;
  for (const ProgramParameter& output : program->outputs()) {
    auto tensor = make_output(output, sizes);
    if (!tensor) return report(tensor.error(), common.json);
    loaded.owned.push_back(*std::move(tensor));
    results.emplace_back(output.name, loaded.owned.back().view());
    loaded.arguments.push_back({output.name, loaded.owned.back().view()});
  }
  std::vector<std::pair<std::string, int64_t>> hints(sizes.begin(), sizes.end());
  auto compiled = codetta::compile(*program, *target, hints, *context);
  if (!compiled) return report(compiled.error(), common.json);
  if (auto ran = compiled->run(loaded.arguments); !ran) return report(ran.error(), common.json);
  for (const std::string& item : options.outputs) {
    const auto [name, file] = split_name(item);
    bool written = false;
    for (const auto& [output, view] : results) {
      if (output != name) continue;
      if (auto ok = write_npy(file, view); !ok) return report(ok.error(), common.json);
      written = true;
    }
    if (!written) {
      return report(
          usage_error("the program has no output '" + name + "'", "given to --out", "see its return statement"),
          common.json);
    }
  }
  if (!common.json) {
    for (const auto& [name, view] : results) std::printf("%s = %s\n", name.c_str(), view.describe().c_str());
  } else {
    std::printf("{\"outputs\":%zu}\n", results.size());
  }
  return exit_ok;
}

}  // namespace codetta::cli
