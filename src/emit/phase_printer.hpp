// SPDX-License-Identifier: Apache-2.0
// Prints one phase of an EpilogueProgram as lines of C++ against the Fragment concept (device/cpu/fragment.h), sorted
// into the nests in which they run. Layouts (a tile function, a fused kernel) put the lines into loops.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/code_writer.hpp"
#include "emit/dialect.hpp"
#include "emit/nests.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::emit {

// What a position or a row holds: a load that may be under way before its value is needed (`text` says what is loaded,
// `setup` from where; without it from where the index arithmetic of the phase leads), or the state of a row's reduction
// (`text` is its number; of a largest value, `setup` is the state that knows it and that it is taken from at the end).
// `rows`, `cols`: it is the same in runs of so many, powers of two (Dialect::runs).
struct Held {
  std::string type, name, text, setup;
  int64_t rows = 1, cols = 1;
};

struct PhaseText {
  std::vector<std::string> setup;      // operand references and uniform values; scalar stores
  std::vector<Held> reducers;          // of everything, which `full` adds to and `end` finishes; behind `setup`
  std::vector<std::string> row;        // at each row, before the columns: per-row values, column stores, row reducers
  std::vector<std::string> by_column;  // once a column that a thread holds, before its rows (Dialect::registers)
  std::vector<Held> loads;             // at each position, before `full`, which names them (Dialect::registers)
  std::vector<Held> row_states;        // of a row, which `full` adds to (Dialect::registers)
  std::vector<std::string> full;       // at each position
  std::vector<std::string> pair;       // the same at `right` or the position to its left; empty: not by pairs
  std::vector<std::string> pair_held;  // what a pair holds (Dialect::pairs)
  std::vector<std::string> row_end;    // after the columns of a row: row reductions
  std::vector<std::string> end;        // after all rows: reductions of everything
  std::vector<std::string> column;     // at each column once a tile, for row-class stores; empty if there are none
  std::string column_guard;            // condition under which `column` runs
  bool has_full_work = false;
  bool stores_rows = false;  // `row` has stores of one element a row, also where there are no columns
};

// Column offsets of an Indexed operand are linear inside of blocks of this many columns.
int64_t column_block(const package::Operand& operand);
// Of an Indexed operand whose columns lie side by side inside of these blocks if its tensor's last dim does: the term
// that says so.
std::optional<size_t> unit_term(const package::Operand& operand);

// Of an Indexed operand that is the same in runs of several columns (plan::run_along): the term by which runs that
// follow each other lie side by side if its tensor's last dim does, in vectors of any number of lanes.
std::optional<size_t> run_term(const package::Operand& operand);

// May an output take the operand's place?
bool is_written(const package::EpilogueProgram& program, uint32_t operand);

void put_lines(base::CodeWriter& out, const std::vector<std::string>& lines);
// The setup and the reducers.
void put_setup(base::CodeWriter& out, const PhaseText& phase);
// Of states by name, with what stands in front of and behind their names.
void take_largest(base::CodeWriter& out, const PhaseText& phase, std::string_view before, std::string_view behind);

// `accumulator` gives the expression of the accumulator of a part at the position.
using AccumulatorText = std::function<std::string(uint32_t part)>;

// Adds what the text calls to `needs`. Errors: as make_nests.
Result<PhaseText> print_phase(const package::EpilogueProgram& program, uint32_t phase, const Dialect& dialect,
                              bool comments, const AccumulatorText& accumulator, std::set<PartLibrary::Request>& needs);

}  // namespace codetta::emit
