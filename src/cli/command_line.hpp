// SPDX-License-Identifier: Apache-2.0
// What the command line means: how it is told that it means nothing, and the texts of help.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace codetta::cli {

// E0701 for options that `verb` has for other work than this, which would go unheeded. `program`: of a program, not of
// a GEMM.
Result<void> well_placed(const CLI::App& verb, bool program, bool cutlass);
// E0701 for options that have no effect with this target, or beside another option. `cutlass`: as of well_placed.
Result<void> heeded(const CLI::App& verb, const CommonOptions& common, bool cutlass);
// Tuning files carry all that is kept: what describes a problem, or how it is timed, is not for them.
Result<void> exchanges_all(const CLI::App& tune);

// E0701 for what shows before anything is parsed: "--dtype=", which would take the next word, and "--json=5".
Result<void> well_written(const CLI::App& app, const std::vector<std::string>& words);
// What the parser refused, in our words. `words`: the command line behind the command's name.
Error misread(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

// Sorts the options of all verbs into the groups of help, and names their values.
void arrange(CLI::App& app);
// What `verb` takes, or the whole command where it is `app`.
std::string help_text(const CLI::App& app, const CLI::App& verb, bool json);
// `codetta help TOPIC`: a verb, an error's code, "errors" for all of them, "" for the command.
Result<std::string> help_on(const CLI::App& app, const std::string& topic, bool json);

}  // namespace codetta::cli
