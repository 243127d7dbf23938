// SPDX-License-Identifier: Apache-2.0
// run: a program over files.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/on_device.hpp"
#include "cli/places.hpp"
#include "cli/program_run.hpp"
#include "cli/specs.hpp"
#include "cli/tune.hpp"
#include "cli/user_kernels.hpp"
#include "cli/verbs.hpp"
#include "cli/watch.hpp"

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

std::string names_of(const std::vector<ProgramParameter>& list) {
  std::string names;
  for (const ProgramParameter& one : list) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

Places places_of(const Given& given, const ProgramOptions& options) {
  Places places{.tensors = given.outputs, .files = {}, .inputs = kernel_files(options.kernels)};
  places.inputs.push_back(options.file);
  for (const auto& [name, file] : given.tensors) places.inputs.push_back(file);
  if (!options.trace.empty()) places.files.emplace_back("the trace", options.trace);
  places.force = options.force;
  return places;
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
  if (auto ok = check_formats(given.outputs); !ok) return ok;
  return check_places(places_of(given, options));
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

Result<void> load_inputs(const Program& program, const Given& given, ProgramData& loaded) {
  const auto parameters = program.parameters();
  const auto check_parameter = [&](const std::string& name, const char* option) -> Result<void> {
    if (std::any_of(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; })) return {};
    return usage_error("the program has no parameter '" + name + "'", std::string("given to ") + option,
                       "its parameters are " + names_of(parameters));
  };
  for (const auto& [name, file] : given.tensors) {
    if (auto known = check_parameter(name, "--tensor"); !known) return known;
    if (file.starts_with('[')) {
      return usage_error("'" + file + "' is no file", "given to --tensor " + name,
                         "leave out --tensor " + name +
                             ": with --check or --dim, parameters that are not given are random, in the sizes that "
                             "--dim says");
    }
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

// The next step for a parameter that is missing is an option.
Error as_options_of_run(const Error& error, const Program& program) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& diagnostic : diagnostics) {
    for (const auto& parameter : program.parameters()) {
      if (diagnostic.code != 208 || diagnostic.argument != parameter.name) continue;
      diagnostic.help = (parameter.type.find('[') == std::string::npos ? "pass --scalar " + parameter.name + "=NUMBER"
                                                                       : "pass --tensor " + parameter.name + "=FILE") +
                        "; with --check or --dim, parameters that are not given are random";
    }
  }
  return Error(std::move(diagnostics));
}

struct AskedSizes {
  Sizes dims, hints;
};
Result<AskedSizes> asked_sizes(const ProgramOptions& options) {
  AskedSizes asked;
  for (const auto& [texts, option, sizes] :
       {std::tuple(&options.dims, "--dim", &asked.dims), std::tuple(&options.hints, "--hint", &asked.hints)}) {
    for (const std::string& text : *texts) {
      auto size = parse_size(text, option);
      if (!size) return std::move(size).error();
      sizes->push_back(*std::move(size));
    }
  }
  return asked;
}

// A size that is asked for and given otherwise by a tensor.
Result<void> check_dims(const Sizes& asked, const ProgramData& data) {
  for (const auto& [name, size] : asked) {
    for (const auto& [symbol, value] : data.shapes.symbols) {
      if (symbol != name || value == size) continue;
      return usage_error("--dim " + name + "=" + std::to_string(size) + " contradicts the tensors that are given",
                         "they make " + name + " " + std::to_string(value),
                         "leave out --dim " + name + ", or pass the files that were meant");
    }
  }
  return {};
}

TensorView view_of(const ProgramData& data, const std::string& output) {
  TensorView view;
  for (const NamedArgument& argument : data.arguments) {
    if (argument.name == output && argument.value.tensor() != nullptr) view = *argument.value.tensor();
  }
  return view;
}

// What makes a reproducer of a kernel, whose name belongs behind it.
std::string reproducer_command(const CommonOptions& common, const ProgramOptions& options, const Sizes& sizes) {
  std::string words = "codetta build " + shell_word(options.file);
  if (!options.function.empty()) words += " --function " + shell_word(options.function);
  for (const std::string& kernel : options.kernels) words += " --kernel " + shell_word(kernel);
  for (const auto& [name, size] : sizes) words += " --dim " + shell_word(name + "=" + std::to_string(size));
  for (const std::string& hint : options.hints) words += " --hint " + shell_word(hint);
  if (options.numerics.strict) words += " --strict";
  if (options.numerics.math != MathMode::Strict)
    words += " --math " + std::string(math_mode_name(options.numerics.math));
  if (!common.target.empty()) words += " --target " + shell_word(common.target);
  // What tune has measured decides which configuration of a kernel runs.
  if (!common.cache_dir.empty()) words += " --cache-dir " + shell_word(common.cache_dir);
  if (common.no_cache) words += " --no-cache";
  return words + " -o FOLDER --repro";
}

Result<void> keep_user_results(ProgramRun run, const ProgramData& data, KeptResults& kept) {
  auto copies = copies_of_donated(run.program, data);
  if (!copies) return std::move(copies).error();
  ProgramData first;
  first.arguments = data.arguments;
  first.shapes = data.shapes;
  for (NamedArgument& argument : first.arguments) {
    for (const NamedArgument& copy : copies->arguments) {
      if (copy.name == argument.name) argument.value = copy.value;
    }
  }
  run.observer = keep_results(kept);
  run.observed = Observed::results;
  auto done = run(first);
  if (!done) return std::move(done).error();
  return {};
}

// Where a GPU gets what is given; none for a CPU.
Result<std::optional<OnDevice>> copies_for(const Target& target, const Program& program, const ProgramData& data,
                                           Context& context) {
  if (!on_gpu(target)) return std::optional<OnDevice>();
  auto made = OnDevice::make(program, data.shapes, target.backend, context, data.arguments);
  if (!made) return std::move(made).error();
  return std::optional(*std::move(made));
}

// Several values of one size choose kernels for each, of which --bisect compares those of one. Errors: E0701.
Result<void> check_compared(const ProgramOptions& options, const Sizes& hints) {
  for (size_t i = 0; options.bisect && i < hints.size(); ++i) {
    for (size_t before = 0; before < i; ++before) {
      if (hints[before].first == hints[i].first)
        return usage_error("--hint " + hints[i].first + " is given twice",
                           "--bisect compares the kernels that are chosen for one value of each size",
                           "give each size one value");
    }
  }
  return {};
}

int bisect_program(const CommonOptions& common, const Program& program, const ProgramData& data, const Target& target,
                   const Sizes& hints, uint64_t seed, std::vector<GivenResults> given, Context& context) {
  BisectOptions how;
  how.seed = seed;
  how.given = std::move(given);
  auto copies = copies_for(target, program, data, context);
  if (!copies) return report(copies.error(), common.json);
  auto found = bisect(program, *copies ? (*copies)->named() : data.arguments, target, hints, how, context);
  if (!found) return report(found.error(), common.json);
  if (common.json) {
    nlohmann::json steps = nlohmann::json::array();
    for (const BisectedStep& one : found->steps) {
      nlohmann::json values = nlohmann::json::array();
      for (const OutputCheck& value : one.values) {
        values.push_back({{"name", value.name},
                          {"checked", value.checked},
                          {"wrong", value.wrong},
                          {"max_error_ratio", value.max_error_ratio},
                          {"worst", value.worst}});
      }
      steps.push_back({{"step", one.step.step},
                       {"kernel", one.step.kernel},
                       {"origins", one.step.origins},
                       {"wrong", one.wrong},
                       {"unchecked", one.unchecked},
                       {"turns", one.turns},
                       {"values", values}});
    }
    const nlohmann::json json{{"pass", found->pass}, {"first_wrong", found->first_wrong}, {"steps", steps}};
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s", found->text.c_str());
  }
  return found->pass.empty() && found->first_wrong < 0 ? exit_ok : exit_program;
}

// What run and tune begin with: the program, what is given to it, and where it goes.
struct Begun {
  Source source;
  Program program;
  Given given;
  Target target;
  Context context;
  AskedSizes asked;
  ProgramData data;  // what was given

  static Result<Begun> make(const CommonOptions& common, const ProgramOptions& options) {
    auto source = read_source(options.file, TextOf::Program);
    if (!source) return std::move(source).error();
    auto program = Program::parse(source->text, source->name, options.function);
    if (program) program = program->with_numerics(options.numerics);
    if (!program) return std::move(program).error();
    program = with_sources(*program, options.kernels);
    if (!program) return std::move(program).error();
    auto given = Given::make(options);
    if (!given) return std::move(given).error();
    if (auto ok = check_outputs(*program, *given, options); !ok) return std::move(ok).error();
    if (auto ok = check_names(*given); !ok) return std::move(ok).error();
    auto target = target_of(common);
    if (!target) return std::move(target).error();
    auto context = context_of(common);
    if (!context) return std::move(context).error();
    auto asked = asked_sizes(options);
    if (!asked) return std::move(asked).error();
    if (auto ok = check_compared(options, asked->hints); !ok) return std::move(ok).error();
    ProgramData data;
    if (auto ok = load_inputs(*program, *given, data); !ok) return std::move(ok).error();
    return Begun{*std::move(source),  *std::move(program), *std::move(given), *std::move(target),
                 *std::move(context), *std::move(asked),   std::move(data)};
  }
};

}  // namespace

int run_program(const CommonOptions& common, const ProgramOptions& options) {
  auto begun = Begun::make(common, options);
  if (!begun) return report(begun.error(), common.json);
  Program& program = begun->program;
  const Target& target = begun->target;
  Context& context = begun->context;
  const AskedSizes& asked = begun->asked;
  ProgramData& data = begun->data;
  const size_t given_count = data.arguments.size();
  const bool nothing_given = given_count == 0;
  if (options.check || options.bisect || !options.dims.empty() || nothing_given) {
    if (auto ok = add_random(program, asked.dims, options.seed, data); !ok) return report(ok.error(), common.json);
  }
  if (options.seeded && !options.check && !options.bisect && data.arguments.size() == given_count)
    return report(usage_error("--seed has no effect", "every parameter is given, and no check takes samples",
                              "leave it out, or say --check"),
                  common.json);
  if (auto ok = add_outputs(program, asked.dims, data); !ok)
    return report(as_options_of_run(ok.error(), program), common.json);
  if (auto ok = check_dims(asked.dims, data); !ok) return report(ok.error(), common.json);
  if (options.tune) {
    if (!options.hints.empty()) {
      return report(
          usage_error("--tune and --hint exclude each other",
                      "what is measured is of the sizes of the tensors, and kernels for others do not take it",
                      "leave out one"),
          common.json);
    }
    auto copies = copies_for(target, program, data, context);
    if (!copies) return report(copies.error(), common.json);
    const auto tuned = tuned_with_progress(common, options.tuning, [&](const TuneOptions& tuning) {
      return codetta::tune(program, *copies ? (*copies)->named() : data.arguments, target, tuning, context);
    });
    if (!tuned) return report(tuned.error(), common.json);
    if (!common.json) {
      std::fprintf(stderr, "codetta: tuned: %s\n", summary_of(*tuned).c_str());
      if (!tuned->note.empty()) std::fprintf(stderr, "codetta: note: %s\n", tuned->note.c_str());
    }
    if (interrupted().load(std::memory_order_relaxed)) return exit_program;
  }
  if (options.check || options.bisect) program = program.with_hooked_results();
  auto compiled = codetta::compile(program, target, options.hints.empty() ? data.shapes.symbols : asked.hints, context,
                                   compile_progress(common));
  if (!compiled) return report(compiled.error(), common.json);
  ProgramRun run{.program = program,
                 .compiled = *compiled,
                 .target = target,
                 .context = context,
                 .seed = options.seed,
                 .user_kernels = !options.kernels.empty(),
                 .crash_help = reproducer_command(common, options, data.shapes.symbols),
                 .json = common.json};
  if (options.bisect) {
    // Kernels of the user's are taken as a first run leaves them.
    KeptResults kept;
    if (!options.kernels.empty()) {
      if (auto ran = keep_user_results(run, data, kept); !ran) return report(ran.error(), common.json);
    }
    return bisect_program(common, program, data, target, asked.hints, options.seed, std::move(kept.calls), context);
  }
  auto watch = Watch::make(options, places_of(begun->given, options));
  if (!watch) return report(watch.error(), common.json);
  run.check = options.check;
  run.graph = options.graph;
  run.observer = watch->observer();
  run.observed = run.observer ? watch->observed() : Observed::steps;
  auto done = run(data);
  if (auto kept = watch->finish(begun->source.name, done.has_value()); !kept) return report(kept.error(), common.json);
  if (!done) {
    if (!common.json) std::printf("%s", watch->values_text().c_str());
    return report(done.error(), common.json);
  }
  std::optional<ProgramRun::Smaller> smaller;
  if (done->checked && leaves_out(*done->checked)) {
    auto checked = run.smaller(data);
    if (!checked) return report(checked.error(), common.json);
    smaller = *std::move(checked);
  }
  std::vector<OutputFile> files;
  nlohmann::json json{{"prepare_ms", done->prepare_ms},    {"run_ms", done->run_ms},
                      {"interpreted", done->interpreted},  {"workspace_bytes", done->workspace_bytes},
                      {"sizes", nlohmann::json::object()}, {"kernels", done->kernels},
                      {"outputs", nlohmann::json::array()}};
  for (const auto& [name, size] : data.shapes.symbols) json["sizes"][name] = size;
  for (const ProgramShapes::Output& one : data.shapes.outputs) {
    const TensorView view = view_of(data, one.name);
    nlohmann::json output{{"name", one.name}, {"dtype", dtype_name(view.dtype())}, {"shape", nlohmann::json::array()}};
    for (int d = 0; d < view.rank(); ++d) output["shape"].push_back(view.size(d));
    for (const auto& [wanted, file] : begun->given.outputs) {
      if (wanted != one.name) continue;
      files.push_back({one.name, file, view});
      output["file"] = file;
    }
    json["outputs"].push_back(std::move(output));
  }
  if (watch->observer()) json["steps"] = nlohmann::json::parse(watch->steps_json());
  if (done->checked) json["check"] = nlohmann::json::parse(check_json(*done->checked));
  if (smaller) {
    json["check_smaller"] = nlohmann::json::parse(check_json(smaller->checked));
    for (const auto& [name, size] : smaller->sizes) json["check_smaller"]["sizes"][name] = size;
  }
  if (auto written = write_tensors(files); !written) return report(written.error(), common.json);
  if (common.json) {
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s", watch->values_text().c_str());
    for (const ProgramShapes::Output& one : data.shapes.outputs)
      std::printf("%s = %s\n", one.name.c_str(), view_of(data, one.name).describe().c_str());
    if (done->checked && !data.shapes.symbols.empty())
      std::printf("sizes     %s\n", sizes_text(data.shapes.symbols).c_str());
    std::printf("run       %.3f ms\n", done->run_ms);
    if (done->checked) std::printf("check     %s", done->checked->text.c_str());
    if (smaller)
      std::printf("instead   random data, %s\n          %s", sizes_text(smaller->sizes).c_str(),
                  smaller->checked.text.c_str());
  }
  const bool passed = !done->checked || done->checked->verdict == VerifyReport::Verdict::Pass;
  return passed ? exit_ok : exit_program;
}

int tune_program(const CommonOptions& common, const ProgramOptions& options, const TuneLimits& limits) {
  auto begun = Begun::make(common, options);
  if (!begun) return report(begun.error(), common.json);
  const Program& program = begun->program;
  const Target& target = begun->target;
  Context& context = begun->context;
  const AskedSizes& asked = begun->asked;
  ProgramData& data = begun->data;
  const size_t given_count = data.arguments.size();
  if (auto ok = add_random(program, asked.dims, options.seed, data); !ok) return report(ok.error(), common.json);
  if (options.seeded && data.arguments.size() == given_count)
    return report(usage_error("--seed has no effect", "every parameter is given", "leave it out"), common.json);
  auto shapes = program.shapes(data.arguments);
  if (!shapes) return report(shapes.error(), common.json);
  data.shapes = *std::move(shapes);
  if (auto ok = check_dims(asked.dims, data); !ok) return report(ok.error(), common.json);
  auto copies = copies_for(target, program, data, context);
  if (!copies) return report(copies.error(), common.json);
  const auto timed = [&](const TuneOptions& tuning) {
    return codetta::tune(program, *copies ? (*copies)->named() : data.arguments, target, tuning, context);
  };
  return told_tuning(common, limits, timed, context);
}

}  // namespace codetta::cli
