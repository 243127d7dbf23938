// SPDX-License-Identifier: Apache-2.0
// run: a program over files.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cli/on_device.hpp"
#include "cli/specs.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {
namespace {

using Items = std::vector<std::pair<std::string, std::string>>;
// What --tensor, --scalar and --out gave: name and file or number.
struct Given {
  Items tensors, scalars, outputs;

  static Result<Given> make(const ProgramOptions& options) {
    Given given;
    const std::tuple<const std::vector<std::string>&, const char*, Items&> all[] = {
        {options.tensors, "--tensor", given.tensors},
        {options.scalars, "--scalar", given.scalars},
        {options.outputs, "--out", given.outputs}};
    for (const auto& [texts, option, items] : all) {
      for (const std::string& text : texts) {
        auto item = split_item(text, option);
        if (!item) return std::move(item).error();
        items.push_back(*std::move(item));
      }
    }
    return given;
  }
};

struct Loaded {
  std::vector<Tensor> owned;
  std::vector<NamedArgument> arguments;
};

std::string names_of(const std::vector<ProgramParameter>& list) {
  std::string names;
  for (const ProgramParameter& one : list) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

// Before any work: every --out names an output.
Result<void> check_outputs(const Program& program, const Given& given, const ProgramOptions& options) {
  const auto outputs = program.outputs();
  for (const auto& [name, file] : given.outputs) {
    bool known = false;
    for (const ProgramParameter& output : outputs) known |= output.name == name;
    if (known) continue;
    return usage_error("the program has no output '" + name + "'", "given to --out",
                       "its outputs are " + names_of(outputs) + "; write --out NAME=FILE.npy");
  }
  std::vector<std::string> inputs{options.file};
  for (const auto& [name, file] : given.tensors) inputs.push_back(file);
  if (options.force) inputs.clear();
  return check_places(given.outputs, inputs);
}

// Every name is given once, whichever options give it.
Result<void> check_names(const Given& given) {
  const auto twice = [](std::initializer_list<const Items*> lists) -> std::optional<std::string> {
    std::set<std::string> seen;
    for (const auto* list : lists) {
      for (const auto& [name, value] : *list) {
        if (!seen.insert(name).second) return name;
      }
    }
    return std::nullopt;
  };
  for (const auto& [name, by] : {std::pair(twice({&given.tensors, &given.scalars}), "by --tensor or --scalar"),
                                 std::pair(twice({&given.outputs}), "by --out")}) {
    if (name) return usage_error(*name + " is given twice", by, "give each name once");
  }
  return {};
}

Result<void> load_inputs(const Program& program, const Given& given, Loaded& loaded) {
  const auto parameters = program.parameters();
  const auto check_parameter = [&](const std::string& name, const char* option) -> Result<void> {
    if (std::any_of(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; })) return {};
    return usage_error("the program has no parameter '" + name + "'", std::string("given to ") + option,
                       "its parameters are " + names_of(parameters));
  };
  for (const auto& [name, file] : given.tensors) {
    if (auto known = check_parameter(name, "--tensor"); !known) return known;
    auto tensor = read_tensor(file);
    if (!tensor) return std::move(tensor).error();
    loaded.owned.push_back(*std::move(tensor));
    loaded.arguments.push_back({name, loaded.owned.back().view()});
  }
  for (const auto& [name, text] : given.scalars) {
    if (auto known = check_parameter(name, "--scalar"); !known) return known;
    auto value = parse_scalar(name, text);
    if (!value) return std::move(value).error();
    loaded.arguments.push_back({name, *value});
  }
  return {};
}

}  // namespace

int run_program(const CommonOptions& common, const ProgramOptions& options) {
  auto source = read_source(options.file, TextOf::Program);
  if (!source) return report(source.error(), common.json);
  auto program = Program::parse(source->text, source->name);
  if (!program) return report(program.error(), common.json);
  auto given = Given::make(options);
  if (!given) return report(given.error(), common.json);
  if (auto ok = check_outputs(*program, *given, options); !ok) return report(ok.error(), common.json);
  if (auto ok = check_names(*given); !ok) return report(ok.error(), common.json);
  auto target = target_of(common);
  if (!target) return report(target.error(), common.json);
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  Loaded loaded;
  if (auto ok = load_inputs(*program, *given, loaded); !ok) return report(ok.error(), common.json);
  const auto shapes = program->shapes(loaded.arguments);
  if (!shapes) return report(shapes.error(), common.json);
  std::vector<std::pair<std::string, TensorView>> results;
  for (const ProgramShapes::Output& output : shapes->outputs) {
    auto tensor = Tensor::make(output.dtype, output.shape);
    if (!tensor) return report(tensor.error(), common.json);
    loaded.owned.push_back(*std::move(tensor));
    results.emplace_back(output.name, loaded.owned.back().view());
    loaded.arguments.push_back({output.name, loaded.owned.back().view()});
  }
  auto compiled = codetta::compile(*program, *target, shapes->symbols, *context);
  if (!compiled) return report(compiled.error(), common.json);
  const auto start = std::chrono::steady_clock::now();
  const auto milliseconds = [](auto from) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
  };
  std::optional<Device> device;
  std::optional<OnDevice> copies;
  if (on_gpu(*target)) {
    auto opened = Device::open(*context);
    if (!opened) return report(opened.error(), common.json);
    device = *std::move(opened);
    auto made = OnDevice::make(*device, loaded.arguments);
    if (!made) return report(made.error(), common.json);
    copies = *std::move(made);
  }
  auto execution = compiled->prepare(copies ? copies->named() : loaded.arguments);
  if (!execution) return report(execution.error(), common.json);
  const double prepare_ms = milliseconds(start);
  const auto running = std::chrono::steady_clock::now();
  if (auto ran = execution->run(); !ran) return report(ran.error(), common.json);
  if (device) {
    if (auto done = device->synchronize(); !done) return report(done.error(), common.json);
  }
  const double run_ms = milliseconds(running);
  for (const auto& [name, view] : results) {
    if (!copies) break;
    if (auto copied = copies->download(name); !copied) return report(copied.error(), common.json);
  }
  std::vector<OutputFile> files;
  nlohmann::json json{{"prepare_ms", prepare_ms},
                      {"run_ms", run_ms},
                      {"interpreted", execution->interpreted()},
                      {"workspace_bytes", execution->workspace_size()},
                      {"kernels", nlohmann::json::array()},
                      {"outputs", nlohmann::json::array()}};
  for (const auto& [name, view] : results) {
    nlohmann::json output{{"name", name}, {"dtype", dtype_name(view.dtype())}, {"shape", nlohmann::json::array()}};
    for (int d = 0; d < view.rank(); ++d) output["shape"].push_back(view.size(d));
    for (const auto& [wanted, file] : given->outputs) {
      if (wanted != name) continue;
      files.push_back({name, file, view});
      output["file"] = file;
    }
    json["outputs"].push_back(std::move(output));
  }
  if (auto written = write_tensors(files); !written) return report(written.error(), common.json);
  if (common.json) {
    if (const auto manifest = compiled->emit(Stage::Manifest)) {
      const nlohmann::json document = nlohmann::json::parse(*manifest);
      for (const auto& kernel : document["kernels"]) json["kernels"].push_back(kernel["name"]);
    }
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    for (const auto& [name, view] : results) std::printf("%s = %s\n", name.c_str(), view.describe().c_str());
    std::printf("run       %.3f ms\n", run_ms);
  }
  return exit_ok;
}

}  // namespace codetta::cli
