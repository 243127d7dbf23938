// SPDX-License-Identifier: Apache-2.0
// explain, kernels, emit, compile: looking at decisions and code without running.
#include <array>
#include <cstdio>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/listing.hpp"
#include "cli/places.hpp"
#include "cli/session.hpp"
#include "cli/specs.hpp"
#include "cli/user_kernels.hpp"
#include "cli/verbs.hpp"
#include "codetta/memory.hpp"

namespace codetta::cli {
namespace {

struct StageName {
  const char* name;
  Stage stage;
};
constexpr std::array<StageName, 11> stages{{{"ast", Stage::Ast},
                                            {"graph", Stage::Graph},
                                            {"plan", Stage::Plan},
                                            {"memory", Stage::Memory},
                                            {"source", Stage::Source},
                                            {"host", Stage::Host},
                                            {"asm", Stage::Asm},
                                            {"manifest", Stage::Manifest},
                                            {"ptx", Stage::Ptx},
                                            {"sass", Stage::Sass},
                                            {"python", Stage::Python}}};

Result<std::vector<StageName>> stages_of(const std::string& what) {
  std::vector<StageName> result;
  std::vector<std::string> names;
  for (const StageName& stage : stages) names.emplace_back(stage.name);
  names.emplace_back("evt");
  std::istringstream words(what);
  for (std::string word; std::getline(words, word, ',');) {
    bool known = false;
    for (const StageName& stage : stages) {
      if (word == stage.name) {
        result.push_back(stage);
        known = true;
      }
    }
    if (!known) return unknown_word("stage", word, "--what", names);
  }
  if (result.empty()) return unknown_word("stage", "", "--what", names);
  return result;
}

using SizeHints = std::vector<std::pair<std::string, int64_t>>;

// A program with its likely sizes, for a target.
struct ProgramSession {
  Program program;
  SizeHints hints;
  Target target;
  Context context;

  // `page`: a file that the command writes, "" for none. `emits`: as of Session.
  static Result<ProgramSession> make(const CommonOptions& common, const InspectedProgram& inspected,
                                     const std::string& page = {}, bool emits = false) {
    if (auto placed = check_places(places(inspected, page)); !placed) return std::move(placed).error();
    SizeHints hints;
    for (const std::string& hint : inspected.hints) {
      auto sizes = parse_sizes(hint, "--hint");
      if (!sizes) return std::move(sizes).error();
      hints.insert(hints.end(), sizes->begin(), sizes->end());
    }
    auto source = read_source(inspected.file, TextOf::Program);
    if (!source) return std::move(source).error();
    auto program = Program::parse(source->text, source->name, inspected.function);
    if (program) program = program->with_numerics(inspected.numerics);
    if (program) program = with_sources(*program, inspected.kernels);
    if (!program) return std::move(program).error();
    auto target = target_of(common);
    if (!target) return std::move(target).error();
    auto context = context_of(common);
    if (!context) return std::move(context).error();
    if (emits) target = emission_target_of(common, *context);
    if (!target) return std::move(target).error();
    return ProgramSession{*std::move(program), std::move(hints), *target, *std::move(context)};
  }

  static Places places(const InspectedProgram& inspected, const std::string& page) {
    Places places;
    if (page.empty()) return places;
    places.files.emplace_back("the report", page);
    places.inputs = kernel_files(inspected.kernels);
    places.inputs.push_back(inspected.file);
    places.takes_force = false;
    return places;
  }

  Result<CompiledProgram> compile(const std::function<void(const CompileProgress&)>& progress,
                                  bool fill_cache = false) {
    return codetta::compile(program, target, hints, context, progress, fill_cache);
  }
};

Result<void> no_hints(const InspectedProgram& program, const char* verb) {
  if (program.hints.empty()) return {};
  return usage_error("--hint is for programs", "the sizes of a GEMM are --m, --n, --k and --batch",
                     std::string("name a program: codetta ") + verb + " PROGRAM.py --hint batch=8");
}

// Writes a page beside what was printed.
int keep_page(const CommonOptions& common, const std::string& file, const Result<std::string>& page) {
  if (!page) return report(page.error(), common.json);
  const auto written = write_text(file, *page);
  return written ? exit_ok : report(written.error(), common.json);
}

template <class Emit>
int print_stages(const CommonOptions& common, const std::string& what, Emit&& emit_stage) {
  auto wanted = stages_of(what);
  if (!wanted) return report(wanted.error(), common.json);
  nlohmann::json json = nlohmann::json::object();
  for (const StageName& stage : *wanted) {
    auto text = emit_stage(stage.stage);
    if (!text) return report(text.error(), common.json);
    if (common.json) {
      json[stage.name] = *text;
      if (stage.stage == Stage::Memory) json[stage.name] = nlohmann::json::parse(*text);
      continue;
    }
    if (wanted->size() > 1) std::printf("==== %s ====\n", stage.name);
    std::fwrite(text->data(), 1, text->size(), stdout);
    if (!text->empty() && text->back() != '\n') std::printf("\n");
  }
  if (common.json) std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return exit_ok;
}

}  // namespace

int explain(const CommonOptions& common, const GemmOptions& options, const InspectedProgram& program,
            const EvtFlags& evt) {
  if (!program.file.empty()) {
    auto session = ProgramSession::make(common, program, options.report);
    if (!session) return report(session.error(), common.json);
    const auto text =
        codetta::explain(session->program, session->target, session->hints, common.json, session->context);
    if (!text) return report(text.error(), common.json);
    std::fwrite(text->data(), 1, text->size(), stdout);
    if (options.report.empty()) return exit_ok;
    const auto compiled = session->compile(compile_progress(common));
    return compiled ? keep_page(common, options.report, compiled->html_report())
                    : report(compiled.error(), common.json);
  }
  if (auto ok = no_hints(program, "explain"); !ok) return report(ok.error(), common.json);
  if (!options.kernel.empty()) return report(all_kernels("explain"), common.json);
  auto session = Session::make(common, options, false);
  if (!session) return report(session.error(), common.json);
  auto text = codetta::explain(session->problem.arguments, session->target, common.json, session->context);
  if (!text) return report(text.error(), common.json);
  const auto beside = cutlass_beside(session->target, session->problem.arguments, evt, session->context);
  if (!beside) return report(beside.error(), common.json);
  if (*beside) append_explained(*text, **beside, common.json);
  std::fwrite(text->data(), 1, text->size(), stdout);
  if (options.report.empty()) return exit_ok;
  return keep_page(common, options.report,
                   html_report(session->problem.arguments, session->target, nullptr, session->context));
}

int kernels(const CommonOptions& common, const GemmOptions& options, const EvtFlags& evt) {
  auto session = Session::make(common, options, false);
  if (!session) return report(session.error(), common.json);
  const auto beside = cutlass_beside(session->target, session->problem.arguments, evt, session->context);
  if (!beside) return report(beside.error(), common.json);
  std::vector<KernelMetadata> kernels;
  std::vector<Rejection> rejections = session->kernels.rejections();
  for (const Kernel& kernel : session->kernels) kernels.push_back(kernel.metadata());
  if (*beside) {
    for (KernelMetadata& metadata : metadata_of(**beside)) kernels.push_back(std::move(metadata));
    rejections.insert(rejections.end(), (*beside)->rejections.begin(), (*beside)->rejections.end());
  }
  print_listing(kernels, rejections, common.json);
  return exit_ok;
}

int emit(const CommonOptions& common, const GemmOptions& options, const std::string& what,
         const InspectedProgram& program) {
  if (!program.file.empty()) {
    auto session = ProgramSession::make(common, program, {}, true);
    if (!session) return report(session.error(), common.json);
    std::optional<CompiledProgram> compiled;
    return print_stages(common, what, [&](Stage stage) -> Result<std::string> {
      if (stage == Stage::Ast || stage == Stage::Graph) return session->program.emit(stage);
      if (stage == Stage::Memory)
        return memory_report(session->program, session->target, session->hints, common.json, session->context);
      if (stage == Stage::Plan || stage == Stage::Host)
        return session->program.emit(stage, session->target, session->hints, session->context);
      if (!compiled) {
        auto made = session->compile(compile_progress(common));
        if (!made) return std::move(made).error();
        compiled = *std::move(made);
      }
      return compiled->emit(stage);
    });
  }
  if (auto ok = no_hints(program, "emit"); !ok) return report(ok.error(), common.json);
  auto session = Session::make(common, options, false, true);
  if (!session) return report(session.error(), common.json);
  auto kernel = session->choose();
  if (!kernel) return report(kernel.error(), common.json);
  return print_stages(common, what, [&](Stage stage) {
    return stage == Stage::Memory ? memory_report(*kernel, common.json) : kernel->emit(stage);
  });
}

namespace {

// A kernel for a GPU is compiled for whoever has one: nothing is loaded. Without a wish the best that may be used.
int compile_for_gpu(const CommonOptions& common, Session& session, Kernel kernel, bool wished) {
  auto seconds = kernel.compile();
  for (size_t i = 1; i < session.kernels.size() && !wished && !seconds && is_unfit(seconds.error()); ++i) {
    if (!common.json) std::fprintf(stderr, "codetta: passed over: %s\n", seconds.error().message().c_str());
    kernel = session.kernels[i];
    seconds = kernel.compile();
  }
  if (!seconds) return report(seconds.error(), common.json);
  const CacheReport cache = cache_report(session.context);
  const std::string name = kernel.metadata().name;
  if (common.json) {
    const nlohmann::json json{
        {"kernel", name}, {"cache", cache.directory}, {"compile_ms", *seconds * 1e3}, {"hit", *seconds == 0}};
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s %s; cache %s\n", name.c_str(), *seconds > 0 ? "compiled" : "was compiled already",
                cache.enabled ? cache.directory.c_str() : "off");
  }
  return exit_ok;
}

// Every kernel of a program into the cache.
int compile_program(const CommonOptions& common, const InspectedProgram& program, const std::string& report_file) {
  auto session = ProgramSession::make(common, program, report_file);
  if (!session) return report(session.error(), common.json);
  nlohmann::json kernels = nlohmann::json::array();
  std::string lines;
  const auto shown = compile_progress(common);
  const auto tell = [&](const CompileProgress& p) {
    shown(p);
    kernels.push_back({{"kernel", p.kernel}, {"compile_ms", p.seconds * 1e3}, {"hit", p.seconds == 0}});
    lines += p.kernel + (p.seconds > 0 ? " compiled\n" : " was compiled already\n");
  };
  const auto compiled = session->compile(tell, true);
  if (!compiled) return report(compiled.error(), common.json);
  const CacheReport cache = cache_report(session->context);
  if (common.json) {
    const nlohmann::json json{{"kernels", kernels}, {"cache", cache.directory}};
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s%s\n", lines.c_str(),
                !cache.enabled           ? "cache off"
                : !cache.warning.empty() ? ("not kept: " + cache.warning).c_str()
                                         : ("cache " + cache.directory).c_str());
  }
  return report_file.empty() ? exit_ok : keep_page(common, report_file, compiled->html_report());
}

// A GEMM's kernel that was made: its page, if one is wanted.
int compiled_page(const CommonOptions& common, Session& session, const std::string& report_file) {
  if (report_file.empty()) return exit_ok;
  return keep_page(common, report_file,
                   html_report(session.problem.arguments, session.target, nullptr, session.context));
}

}  // namespace

int compile(const CommonOptions& common, const GemmOptions& options, const InspectedProgram& program) {
  if (!program.file.empty()) return compile_program(common, program, options.report);
  if (auto ok = no_hints(program, "compile"); !ok) return report(ok.error(), common.json);
  auto session = Session::make(common, options, false);
  if (!session) return report(session.error(), common.json);
  auto kernel = session->choose();
  if (!kernel) return report(kernel.error(), common.json);
  if (on_gpu(session->target)) {
    const int made = compile_for_gpu(common, *session, *kernel, !options.kernel.empty());
    return made == exit_ok ? compiled_page(common, *session, options.report) : made;
  }
  const auto seconds = kernel->compile();
  if (!seconds) return report(seconds.error(), common.json);
  const CacheReport cache = cache_report(session->context);
  const bool compiled = *seconds > 0;
  const bool stored = compiled && cache.stored > 0 && cache.warning.empty();
  const std::string kept = !cache.enabled           ? "cache off"
                           : !compiled              ? "cache " + cache.directory
                           : stored                 ? "kept in " + cache.directory
                           : cache.read_only        ? "not kept: the cache is read-only"
                           : !cache.warning.empty() ? "not kept: " + cache.warning
                                                    : "not kept: it does not fit the size of the cache";
  if (common.json) {
    std::printf("%s\n", nlohmann::json{{"kernel", kernel->metadata().name},
                                       {"cache", cache.directory},
                                       {"kept", stored},
                                       {"compile_ms", *seconds * 1e3},
                                       {"hit", !compiled}}
                            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
  } else {
    std::printf("%s %s; %s\n", kernel->metadata().name.c_str(), compiled ? "compiled" : "was compiled already",
                kept.c_str());
  }
  return compiled_page(common, *session, options.report);
}

}  // namespace codetta::cli
