// SPDX-License-Identifier: Apache-2.0
// help: what a verb takes, in groups that are the same everywhere, and the pages of errors.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/command_line.hpp"
#include "cli/error_pages.hpp"

namespace codetta::cli {
namespace {

constexpr size_t text_column = 30, line_length = 110;

// In the order of help.
struct Placed {
  const char *group, *option, *value;
};
constexpr Placed placed_options[] = {
    {"Input", "--program", "PROGRAM.py"},
    {"Input", "--m", "N"},
    {"Input", "--n", "N"},
    {"Input", "--k", "N"},
    {"Input", "--batch", "N"},
    {"Input", "--dtype", "TYPE"},
    {"Input", "--b-dtype", "TYPE"},
    {"Input", "--transpose-a", ""},
    {"Input", "--transpose-b", ""},
    {"Input", "--a", "FILE"},
    {"Input", "--b", "FILE"},
    {"Input", "--tensor", "NAME=WHAT"},
    {"Input", "--scalar", "NAME=NUMBER"},
    {"Input", "--constant", "NAME=FILE"},
    {"Input", "--weights", "FILE"},
    {"Input", "--hint", "SIZE=N"},
    {"Input", "--by-size", "N"},
    {"Input", "--dim", "SIZE=N"},
    {"Input", "--seed", "N"},
    {"Epilogue", "--epilogue", "FILE|TEXT"},
    {"Epilogue", "--function", "NAME"},
    {"Epilogue", "--accumulator", "TYPE"},
    {"Epilogue", "--math", "MODE"},
    {"Epilogue", "--strict", ""},
    {"Epilogue", "--as-unfused", ""},
    {"Target", "--target", "TARGET"},
    {"Target", "--device", "N"},
    {"Target", "--devices", "N,N"},
    {"Target", "--graph", ""},
    {"Target", "--threads", "N"},
    {"Target", "--kernel", "NAME"},
    {"Target", "--all", ""},
    {"Target", "--no-vendor", ""},
    {"Target", "--cuda-home", "FOLDER"},
    {"Target", "--cuda-compiler", "COMPILER"},
    {"Target", "--compiler", "COMPILER"},
    {"Target", "--compile-timeout", "SECONDS"},
    {"Target", "--no-compiler", ""},
    {"Target", "--no-jit", ""},
    {"CUTLASS", "--via", "cutlass"},
    {"CUTLASS", "--cutlass-dir", "FOLDER"},
    {"CUTLASS", "--tile", "MxNxK"},
    {"CUTLASS", "--cluster", "MxNxK"},
    {"CUTLASS", "--schedule", "SCHEDULE"},
    {"CUTLASS", "--nondeterministic", ""},
    {"CUTLASS", "--buffer", "NAME=BUFFER"},
    {"CUTLASS", "--plain-pointers", ""},
    {"CUTLASS", "--no-cd", ""},
    {"Checking and measuring", "--check", ""},
    {"Checking and measuring", "--bisect", ""},
    {"Checking and measuring", "--values", ""},
    {"Checking and measuring", "--save-values", "FOLDER"},
    {"Checking and measuring", "--trap", "nan|inf"},
    {"Checking and measuring", "--trace", "FILE"},
    {"Checking and measuring", "--bench", ""},
    {"Checking and measuring", "--pack", ""},
    {"Checking and measuring", "--candidates", "N"},
    {"Checking and measuring", "--tune", ""},
    {"Checking and measuring", "--budget", "SECONDS"},
    {"Checking and measuring", "--trial", "SECONDS"},
    {"Output", "--what", "STAGES"},
    {"Output", "--out", "NAME=WHAT"},
    {"Output", "--out-dtype", "TYPE"},
    {"Output", "--output", "FILE"},
    {"Output", "--form", "library|nvcc|nvrtc"},
    {"Output", "--name", "NAME"},
    {"Output", "--header", "FILE"},
    {"Output", "--manifest", "FILE"},
    {"Output", "--benchmark", "FILE"},
    {"Output", "--embed-weights", ""},
    {"Output", "--no-checks", ""},
    {"Output", "--engine-dir", "FOLDER"},
    {"Output", "--show", ""},
    {"Output", "--repro", "NAME"},
    {"Output", "--report", "FILE"},
    {"Output", "--export", "FILE"},
    {"Output", "--import", "FILE"},
    {"Output", "--force", ""},
    {"Output", "--json", ""},
    {"Cache", "--cache-dir", "FOLDER"},
    {"Cache", "--no-cache", ""},
    {"Other", "--debug", "LIST"},
    {"Other", "--version", ""},
    {"Other", "--help", ""},
};

// "-o,--output FILE", "--tensor NAME=WHAT ..."
std::string shown(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += "-" + name + ",";
  for (const std::string& name : option.get_lnames()) text += "--" + name + ",";
  if (!text.empty()) text.pop_back();
  if (option.get_items_expected_max() == 0) return text;
  if (text.empty()) return option.get_single_name();
  text += " " + option.get_type_name();
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::Throw && option.get_items_expected_max() > 1
             ? text + " ..."
             : text;
}

// Two columns; the right one goes on below itself.
void add_row(std::string& out, const std::string& left, std::string_view text) {
  std::string line = "  " + left;
  if (line.size() + 2 > text_column) {
    out += line + "\n";
    line.clear();
  }
  line.resize(text_column, ' ');
  while (text.size() > line_length - text_column) {
    const size_t blank = text.rfind(' ', line_length - text_column);
    if (blank == std::string_view::npos || blank == 0) break;
    out += line + std::string(text.substr(0, blank)) + "\n";
    text.remove_prefix(blank + 1);
    line.assign(text_column, ' ');
  }
  out += line + std::string(text) + "\n";
}

std::string described(const CLI::Option& option) {
  std::string text = option.get_description();
  if (option.get_required()) text += " (required)";
  const std::string standard = option.get_default_str();
  return standard.empty() ? text : text + " (default: " + standard + ")";
}

std::string usage_of(const CLI::App& app, const CLI::App& verb) {
  if (&verb == &app) return "codetta COMMAND [OPTIONS]";
  std::string text = "codetta " + verb.get_name() + " [OPTIONS]";
  for (const CLI::Option* option : verb.get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    const std::string name = option->get_name(true, false);
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// "shapes do not broadcast", of the page's first line.
std::string headline_of(const ErrorPage& page) {
  const std::string_view text = page.text;
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t colon = line.find(": ");
  return std::string(colon == std::string_view::npos ? line : line.substr(colon + 2));
}

// "E0207" of "e0207", "E207" and "207"; "" of what is no code.
std::string code_of(std::string word) {
  if (!word.empty() && (word[0] == 'E' || word[0] == 'e')) word.erase(0, 1);
  const bool digits = std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (word.empty() || word.size() > 4 || !digits) return {};
  return "E" + std::string(4 - word.size(), '0') + word;
}

Result<std::string> page_text(const std::string& code, bool json) {
  std::vector<std::string> known;
  for (size_t i = 0; i < error_page_count; ++i) {
    const ErrorPage& page = error_pages[i];
    if (code == page.code)
      return json ? json_line({{"code", code}, {"headline", headline_of(page)}, {"page", page.text}})
                  : std::string(page.text);
    known.emplace_back(page.code);
  }
  const std::string meant = nearest_word(code, known);
  return usage_error(
      "no error has the code " + code, "",
      (meant.empty() ? "" : "did you mean " + meant + "? ") + std::string("`codetta help errors` lists them"));
}

std::string all_errors(bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  for (size_t i = 0; i < error_page_count; ++i) {
    const std::string headline = headline_of(error_pages[i]);
    text += std::string(error_pages[i].code) + "  " + headline + "\n";
    list.push_back({{"code", error_pages[i].code}, {"headline", headline}});
  }
  return json ? json_line(list) : text;
}

}  // namespace

void arrange(CLI::App& app) {
  std::vector<CLI::App*> all{&app};
  for (CLI::App* verb : app.get_subcommands({})) all.push_back(verb);
  for (CLI::App* verb : all) {
    for (const auto& [group, name, value] : placed_options) {
      CLI::Option* option = verb->get_option_no_throw(name);
      if (option == nullptr) continue;
      const bool of_cutlass = std::string_view(name) == "--name" && verb->get_name() == "emit";
      option->group(of_cutlass ? "CUTLASS" : group);
      if (*value != '\0') option->type_name(value);
    }
  }
}

std::string help_text(const CLI::App& app, const CLI::App& verb, bool json) {
  nlohmann::ordered_json object{{"command", &verb == &app ? "" : verb.get_name()},
                                {"text", verb.get_description()},
                                {"usage", usage_of(app, verb)}};
  std::string text = verb.get_description() + "\nUsage: " + usage_of(app, verb) + "\n";
  if (&verb == &app) {
    text += "\nCommands:\n";
    object["commands"] = nlohmann::ordered_json::array();
    for (const CLI::App* each : app.get_subcommands({})) {
      add_row(text, each->get_name(), each->get_description());
      object["commands"].push_back({{"command", each->get_name()}, {"text", each->get_description()}});
    }
  }
  object["options"] = nlohmann::ordered_json::array();
  const auto add = [&](const CLI::Option& option, const std::string& name, const std::string& group) {
    add_row(text, name, described(option));
    object["options"].push_back({{"option", name}, {"group", group}, {"text", described(option)}});
  };
  const auto positionals = verb.get_options([](const CLI::Option* o) { return o->get_positional(); });
  if (!positionals.empty()) text += "\nArguments:\n";
  for (const CLI::Option* option : positionals) add(*option, option->get_name(true, false), "Arguments");
  std::string last;
  // Groups of few options come where the table has their first.
  std::vector<std::string> groups;
  for (const Placed& placed : placed_options) {
    if (std::find(groups.begin(), groups.end(), placed.group) == groups.end()) groups.emplace_back(placed.group);
  }
  for (const std::string& group : groups) {
    for (const Placed& placed : placed_options) {
      const CLI::Option* option = verb.get_option_no_throw(placed.option);
      if (option == nullptr || option->get_group() != group) continue;
      if (last != group) text += "\n" + group + ":\n";
      last = group;
      add(*option, shown(*option), group);
    }
  }
  if (&verb == &app) text += "\n`codetta help gemm` tells what gemm takes, `codetta help E0207` what an error means.\n";
  return json ? json_line(object) : text;
}

Result<std::string> help_on(const CLI::App& app, const std::string& topic, bool json) {
  if (topic.empty()) return help_text(app, app, json);
  if (topic == "errors") return all_errors(json);
  if (const std::string code = code_of(topic); !code.empty()) return page_text(code, json);
  std::vector<std::string> known{"errors"};
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == topic) return help_text(app, *verb, json);
    known.push_back(verb->get_name());
  }
  const std::string meant = nearest_word(topic, known);
  return usage_error("there is no command '" + topic + "'", "",
                     meant.empty() ? "see codetta --help, or codetta help errors" : "did you mean '" + meant + "'?");
}

}  // namespace codetta::cli
