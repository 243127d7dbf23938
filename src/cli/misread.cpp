// SPDX-License-Identifier: Apache-2.0
// Command lines that mean nothing: what the parser refuses, told in words of ours with a reason and a next step.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>

#include "cli/command_line.hpp"

namespace codetta::cli {
namespace {

// "--m" of "--m=5"
std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }
bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

const CLI::App* verb_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == name) return verb;
  }
  return nullptr;
}

std::vector<std::string> verbs_with(const CLI::App& app, const std::string& option) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_option_no_throw(option) != nullptr) names.push_back(verb->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options({})) {
    if (option->nonpositional()) names.push_back("--" + option->get_single_name());
  }
  return names;
}

std::string see_help(const CLI::App& verb) { return "`codetta help " + verb.get_name() + "` lists what it takes"; }

Error no_command(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string all = "the commands are " + listed(verbs_of(app));
  if (words.empty()) return usage_error("no command is given", all, "see codetta --help");
  const std::string& first = words[0];
  if (!is_option(first)) {
    const std::vector<std::string> verbs = verbs_of(app);
    std::string meant = nearest_word(first, verbs);
    if (meant.empty()) meant = nearest_word("--" + first, {"--version", "--help"});
    if (first == "version") meant = "--version";
    return usage_error("there is no command '" + first + "'", meant.empty() ? all : "",
                       meant.empty() ? "see codetta --help" : "did you mean '" + meant + "'?");
  }
  // An option before the command.
  const std::string option = name_of(first);
  const std::vector<std::string> takers = verbs_with(app, option);
  if (takers.empty()) {
    const std::string meant = nearest_word(option, {"--version", "--help"});
    return usage_error("codetta has no option " + option, "options stand behind a command",
                       meant.empty() ? "see codetta --help" : "did you mean '" + meant + "'?");
  }
  const std::vector<std::string> verbs = verbs_of(app);
  const auto named = std::find_first_of(words.begin(), words.end(), verbs.begin(), verbs.end());
  std::string verb = named == words.end() ? takers[0] : *named;
  return usage_error(option + " stands before the command", "options are those of a command, and follow it",
                     "write codetta " + verb + " " + option + " ...");
}

// An option that `verb` does not have, or a word too many.
Error unexpected(const CLI::App& app, const CLI::App& verb, const std::vector<std::string>& words) {
  if (words.empty()) return usage_error("words are not expected", "", see_help(verb));
  const auto option = std::find_if(words.begin(), words.end(), is_option);
  if (option == words.end()) {
    const std::string& word = words.front();
    const auto positional = verb.get_options([](const CLI::Option* o) { return o->get_positional(); });
    const bool named = verb.get_option_no_throw("--" + word) != nullptr;
    const std::string meant = named ? "--" + word : nearest_word("--" + word, options_of(verb));
    const std::string takes = positional.empty()
                                  ? "takes options only"
                                  : "takes one word that is no option (" + positional[0]->get_name(true, false) + ")";
    return usage_error("'" + word + "' is not expected", verb.get_name() + " " + takes,
                       meant.empty() ? see_help(verb) : "did you mean '" + meant + "'?");
  }
  const std::string name = name_of(*option);
  const std::vector<std::string> takers = verbs_with(app, name);
  const std::string headline = verb.get_name() + " has no option " + name;
  if (name == "--version") return usage_error(headline, "it is the whole command's", "write codetta --version");
  if (!takers.empty()) {
    return usage_error(headline, listed(takers) + (takers.size() == 1 ? " takes it" : " take it"),
                       "leave it out; " + see_help(verb));
  }
  const std::string meant = nearest_word(name, options_of(verb));
  return usage_error(headline, "", meant.empty() ? see_help(verb) : "did you mean '" + meant + "'?");
}

Error miscounted(const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = verb.get_option_no_throw(name);
  if (option == nullptr) return usage_error(name + ": a wrong number of values", "", see_help(verb));
  if (option->count() > 1) {
    return usage_error(name + " is given " + std::to_string(option->count()) + " times",
                       "it takes one value, and gets " + listed(option->results()), "leave all but one out");
  }
  return usage_error(name + " needs a value", option->get_description(),
                     "write " + name + " " + option->get_type_name());
}

// "--device excludes --devices", by the parser's words.
Error excluded(const std::string& said) {
  constexpr std::string_view between = " excludes ";
  const size_t at = said.find(between);
  std::string one = said.substr(0, at);
  std::string other = at == std::string::npos ? "that option" : said.substr(at + between.size());
  if (other.size() < one.size()) std::swap(one, other);  // both exclude each other: --device is left out
  return usage_error(one + " is not for a command with " + other,
                     one == "--device" ? "what runs on one device runs on the first of --devices" : "",
                     "leave out " + one);
}

Error absent(const CLI::App& verb, const std::string& what) {
  if (verb.get_name() == "run" && what.starts_with("program"))
    return usage_error("program is required", "run runs programs", "name a file: codetta run PROGRAM.py");
  if (verb.get_name() == "build")
    return usage_error("-o is required", "build writes a library", "name its file: -o libNAME.so");
  return usage_error(what, "", see_help(verb));
}

}  // namespace

Result<void> well_written(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* verb = words.empty() ? nullptr : verb_named(app, words[0]);
  for (const std::string& word : words) {
    if (word == "--") break;
    const size_t equals = word.find('=');
    if (!word.starts_with("--") || word.size() <= 3 || equals == std::string::npos) continue;
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = verb == nullptr ? nullptr : verb->get_option_no_throw(name);
    if (option != nullptr && option->get_items_expected_max() == 0)
      return usage_error(name + " takes no value", "it is given '" + word.substr(equals + 1) + "'",
                         "write " + name + " alone, or leave it out");
    if (equals + 1 == word.size())
      return usage_error(name + ": nothing is given to it", "", "write a value behind the '=', or leave it out");
  }
  return {};
}

Error misread(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  if (parsed.empty() || words.empty() || verb_named(app, words[0]) == nullptr) return no_command(app, words);
  const CLI::App& verb = *parsed.back();
  const std::string said = error.what();
  const size_t colon = said.find(": ");
  const std::string name = said.substr(0, colon);
  // An option that is not there is told first: of "cache --thread 2" the 2 is then no action.
  const std::vector<std::string> rest = app.remaining(true);
  if (std::any_of(rest.begin(), rest.end(), is_option) || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    return unexpected(app, verb, rest);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return miscounted(verb, name);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return absent(verb, said);
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) return excluded(said);
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr && colon != std::string::npos) {
    const CLI::Option* option = verb.get_option_no_throw(name);
    if (option != nullptr && !option->nonpositional()) return usage_error(said.substr(colon + 2), "", see_help(verb));
    return usage_error(said, option == nullptr ? "" : option->get_description(), see_help(verb));
  }
  return usage_error(said, "", see_help(verb));
}

}  // namespace codetta::cli
