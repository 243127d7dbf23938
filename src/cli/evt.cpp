// SPDX-License-Identifier: Apache-2.0
// emit and build for CUTLASS: visitor trees, whole translation units, libraries.
#include <cstdio>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/evt.hpp"
#include "cli/places.hpp"

namespace codetta::cli {
namespace {

constexpr std::pair<const char*, EvtSchedule> schedules[] = {
    {"auto", EvtSchedule::Auto},
    {"multistage", EvtSchedule::Multistage},
    {"tma_warp_specialized", EvtSchedule::TmaWarpSpecialized},
    {"tma_warp_specialized_pingpong", EvtSchedule::TmaWarpSpecializedPingpong},
    {"tma_warp_specialized_cooperative", EvtSchedule::TmaWarpSpecializedCooperative},
    {"tma_warp_specialized_1sm", EvtSchedule::TmaWarpSpecialized1Sm},
    {"tma_warp_specialized_2sm", EvtSchedule::TmaWarpSpecialized2Sm},
};

// "128x128x64"
Result<std::array<int, 3>> parse_tile(const std::string& text, const char* option, const char* example) {
  std::array<int, 3> tile{};
  if (text.empty()) return tile;
  int read = 0;
  char rest = 0;
  if (text.size() > 20 ||
      std::sscanf(text.c_str(), "%4dx%4dx%4d%n%c", &tile[0], &tile[1], &tile[2], &read, &rest) != 3 || tile[0] < 1 ||
      tile[1] < 1 || tile[2] < 1)
    return usage_error("'" + text + "' is not three sizes", std::string("given to ") + option,
                       std::string("write ") + option + " " + example);
  return tile;
}

}  // namespace

Result<EvtOptions> cutlass_options(const CommonOptions& common, const EvtFlags& flags) {
  EvtOptions options;
  auto target = target_of(common);
  if (!target) return std::move(target).error();
  options.target = *std::move(target);
  auto tile = parse_tile(flags.tile, "--tile", "128x128x64");
  if (!tile) return std::move(tile).error();
  options.tile = *tile;
  auto cluster = parse_tile(flags.cluster, "--cluster", "2x1x1");
  if (!cluster) return std::move(cluster).error();
  options.cluster = *cluster;
  std::vector<std::string> names;
  bool known = flags.schedule.empty();
  for (const auto& [name, schedule] : schedules) {
    names.emplace_back(name);
    if (flags.schedule != name) continue;
    options.schedule = schedule;
    known = true;
  }
  if (!known) {
    return unknown_word("schedule", flags.schedule, "--schedule", names);
  }
  options.deterministic = !flags.nondeterministic;
  options.offsets = !flags.plain_pointers;
  options.emit_cd = !flags.no_cd;
  for (const std::string& item : flags.buffers) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size())
      return usage_error("'" + item + "' is not NAME=BUFFER", "given to --buffer", "write --buffer C=buf0");
    options.buffers.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return options;
}

namespace {

nlohmann::ordered_json json_of(const EvtText& text) {
  nlohmann::ordered_json renames = nlohmann::ordered_json::object();
  for (const auto& [buffer, name] : text.renames) renames[buffer] = name;
  return {{"name", text.name},
          {"types", text.types},
          {"functors", text.functors},
          {"arguments", text.arguments},
          {"renames", renames},
          {"source", text.source},
          {"destination", text.destination},
          {"element_c", text.element_c},
          {"element_d", text.element_d},
          {"stride_c", text.stride_c},
          {"stride_d", text.stride_d},
          {"epilogue_tile", {text.epilogue_tile_m, text.epilogue_tile_n}},
          {"stages_c", text.stages_c},
          {"stages_d", text.stages_d},
          {"reuses_c", text.reuses_c},
          {"shared_bytes", text.shared_bytes},
          {"cutlass", text.cutlass},
          {"notes", text.notes}};
}

void print(const EvtText& text) {
  std::printf("// for CUTLASS %s; epilogue tile %dx%d, %d buffers for C, %d for D%s, %lld bytes of shared memory\n",
              text.cutlass.c_str(), text.epilogue_tile_m, text.epilogue_tile_n, text.stages_c, text.stages_d,
              text.reuses_c ? " that share memory" : "", static_cast<long long>(text.shared_bytes));
  for (const std::string& note : text.notes) std::printf("// %s\n", note.c_str());
  if (!text.functors.empty()) std::printf("%s\n", text.functors.c_str());
  std::printf("%s\n// %s::Arguments", text.types.c_str(), text.name.c_str());
  for (const auto& [buffer, name] : text.renames) std::printf("; %s is %s", name.c_str(), buffer.c_str());
  std::printf("\n%s\n", text.arguments.c_str());
}

void print_json(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

int emit_for_cutlass(const CommonOptions& common, const GemmOptions& gemm, const std::string& what,
                     const EvtFlags& flags) {
  auto options = cutlass_options(common, flags);
  if (!options) return report(options.error(), common.json);
  auto problem = build_problem(gemm, false);
  if (!problem) return report(problem.error(), common.json);
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::istringstream words(what);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "evt") {
      EvtOptions named = *options;
      if (!flags.name.empty()) named.name = flags.name;
      auto text = emit_evt(problem->arguments, named);
      if (!text) return report(text.error(), common.json);
      if (common.json) {
        json["evt"] = json_of(*text);
      } else {
        print(*text);
      }
    } else if (word == "source" || word == "host") {
      auto text = emit_cutlass(problem->arguments, *options, flags.name.empty() ? "codetta_evt_gemm" : flags.name);
      if (!text) return report(text.error(), common.json);
      const std::string& shown = word == "source" ? text->source : text->header;
      if (common.json) {
        json[word] = shown;
      } else {
        std::fwrite(shown.data(), 1, shown.size(), stdout);
      }
    } else {
      return report(
          usage_error("stage '" + word + "' does not exist for CUTLASS", "given to --what",
                      "known are evt (types and arguments), source (a translation unit) and host (its C header)"),
          common.json);
    }
  }
  if (common.json) print_json(json);
  return exit_ok;
}

int build_for_cutlass(const CommonOptions& common, const GemmOptions& gemm, const EvtFlags& flags,
                      const std::string& output) {
  auto options = cutlass_options(common, flags);
  if (!options) return report(options.error(), common.json);
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  auto problem = build_problem(gemm, false);
  if (!problem) return report(problem.error(), common.json);
  CutlassBuild build{.output = output, .name = flags.name, .cutlass_dir = flags.cutlass_dir};
  Places places{.tensors = {}, .files = {}, .inputs = problem->input_files};
  places.force = gemm.force;
  build.before_writing = guard_of(std::move(places));
  auto built = build_cutlass(problem->arguments, *options, build, *context);
  if (!built) return report(built.error(), common.json);
  if (common.json) {
    print_json({{"library", built->library},
                {"header", built->header},
                {"kernel", built->kernel},
                {"cutlass", built->version},
                {"bytes", built->bytes},
                {"seconds", built->seconds}});
    return exit_ok;
  }
  std::printf("library   %s, %lld bytes\nheader    %s\nkernel    %s\nCUTLASS   %s\nbuilt in  %.2f s\n",
              built->library.c_str(), static_cast<long long>(built->bytes), built->header.c_str(),
              built->kernel.c_str(), built->version.c_str(), built->seconds);
  return exit_ok;
}

}  // namespace codetta::cli
