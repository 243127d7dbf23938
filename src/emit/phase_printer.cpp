// SPDX-License-Identifier: Apache-2.0
// The c_like printer: one SSA value a line.
#include "emit/phase_printer.hpp"

#include <array>
#include <bit>
#include <numeric>

#include "base/code_writer.hpp"
#include "plan/families.hpp"
#include "plan/guards.hpp"
#include "plan/making.hpp"
#include "types/op.hpp"

namespace codetta::emit {

using base::CodeWriter;
using package::Access;
using package::Axis;
using package::Inst;

namespace {

template <class... Pieces>
std::string text(const Pieces&... pieces) {
  return CodeWriter::text_of(pieces...);
}

std::string joined(const std::vector<std::string>& pieces, std::string_view between) {
  std::string out;
  for (const std::string& piece : pieces) {
    if (!out.empty()) out += between;
    out += piece;
  }
  return out;
}

// `suffix`: of a literal of 64 bits.
std::string integer_literal(uint64_t bits, DType type, std::string_view suffix) {
  if (types::is_unsigned(type)) return text(bits, "u", suffix);
  const auto value = static_cast<int64_t>(bits);
  if (value == std::numeric_limits<int64_t>::min()) return text("(-9223372036854775807", suffix, " - 1)");
  return text(value, suffix);
}

class PhasePrinter {
 public:
  PhasePrinter(const package::EpilogueProgram& program, uint32_t phase, const Dialect& dialect, bool comments,
               const AccumulatorText& accumulator, std::set<PartLibrary::Request>& needs, const Nests& nests)
      : program_(program),
        phase_(program.phases[phase]),
        dialect_(dialect),
        comments_(comments),
        accumulator_(accumulator),
        needs_(needs),
        nests_(nests),
        convert_(dialect, needs) {}

  PhaseText print();

 private:
  // Values.
  [[nodiscard]] const Inst& inst(uint32_t id) const { return phase_.insts[id]; }
  std::string value_line(uint32_t id);
  std::string value_text(uint32_t id);
  std::string op_text(const Inst& in);
  [[nodiscard]] bool divides_by_row(const Inst& in) const;
  struct OneUse {  // one of the two
    const Inst* inst = nullptr;
    const package::Store* store = nullptr;
  };
  [[nodiscard]] std::optional<OneUse> one_use(uint32_t id) const;
  [[nodiscard]] bool is_divided_exp(const Inst& in) const;
  std::string argument(const Inst& in, int i, DType type);
  std::string literal_text(const Inst& in);
  std::string scalar_text(const Inst& in);
  std::string load_text(const Inst& in);
  std::string load_at_text(const Inst& in);
  std::string result_text(const Inst& in);
  // Operands with rows and columns are loaded ahead of what is done with them, for several positions at once.
  [[nodiscard]] bool loads_early(const Inst& in) const {
    if (!dialect_.registers || in.kind != Inst::Kind::Load) return false;
    const package::Operand& o = program_.operands[in.index];
    return o.access == Access::Indexed ? emit::variation_of(o) == by_both : o.access == Access::Full && o.unit_stride;
  }
  std::string indexed_text(uint32_t operand);
  // Columns of an operand that is loaded by runs; 1: it is not.
  [[nodiscard]] int64_t run_of(uint32_t operand) const {
    const package::Operand& o = program_.operands[operand];
    return dialect_.runs && o.access == Access::Indexed && o.gathered.empty() ? plan::run_along(o, Axis::Col) : 1;
  }
  [[nodiscard]] std::string runs_text(uint32_t operand);
  // Behind the other template arguments of a load from the operand.
  [[nodiscard]] std::string_view written_text(uint32_t operand) const {
    return dialect_.says_written && is_written(program_, operand) ? ", true" : "";
  }
  [[nodiscard]] std::string early_name(const Inst& in) const { return text("l", &in - phase_.insts.data()); }
  [[nodiscard]] std::string comment(uint32_t id) const;

  // Operands.
  std::string method(std::string_view name) {
    needs_.emplace(name, Domain::Common);
    return text("f.", name);
  }
  std::string template_method(std::string_view name) {
    needs_.emplace(name, Domain::Common);
    return text(dialect_.templated, name);
  }
  void print_operands(PhaseText& out);
  void print_indexed(uint32_t operand, PhaseText& out);
  [[nodiscard]] std::string index_of(const package::IndexTerm& term, std::string_view coordinate) const;
  [[nodiscard]] std::string stride_name(uint32_t operand, size_t term) const {
    return text("o", operand, "_stride", term);
  }
  [[nodiscard]] std::string row_pointer(uint32_t operand) const;
  // What the fragment is told: of registers it takes vectors where blocks are whole vectors.
  [[nodiscard]] int64_t block_of(const package::Operand& operand) const {
    return dialect_.registers && !unit_term(operand) ? 1 : column_block(operand);
  }
  std::string unit_of(uint32_t operand) const;
  std::string store_line(const package::Store& store);
  // A store whose place is computed and does not change along rows, along columns, or along both: as of the class that
  // has as many elements.
  [[nodiscard]] bool computes_place_once(const package::Operand& operand) const {
    return operand.access == Access::Indexed && emit::variation_of(operand) != by_both;
  }
  [[nodiscard]] std::string place_name(uint32_t operand) const { return text("at", operand); }
  std::string place_line(uint32_t operand);
  void put_once(const package::Store& store, std::vector<std::string>& lines);
  void print_full_stores(PhaseText& out);

  // Reductions.
  std::string reducer(const package::Reduction& reduction);
  // Of a row's largest value: the sum of exponents that knows it, if there is one.
  [[nodiscard]] std::string largest_of(const package::Reduction& reduction) const;
  void print_reductions(PhaseText& out);

  [[nodiscard]] std::string_view vector_of(DType type) const { return dialect_.type(type).value; }

  const package::EpilogueProgram& program_;
  const package::Phase& phase_;
  const Dialect& dialect_;
  bool comments_;
  const AccumulatorText& accumulator_;
  std::set<PartLibrary::Request>& needs_;
  const Nests& nests_;
  Conversions convert_;
};

std::string PhasePrinter::comment(uint32_t id) const {
  if (!comments_) return {};
  const Inst& in = inst(id);
  std::string what;
  switch (in.kind) {
    case Inst::Kind::Op:
      what = types::op_info(in.op).name;
      break;
    case Inst::Kind::Accumulator:
      what = text("accum ", in.index);
      break;
    case Inst::Kind::Load:
      what = text("load o", in.index, " ", types::dtype_traits(program_.operands[in.index].dtype).name);
      break;
    case Inst::Kind::Scalar:
      what = text("scalar a", in.index);
      break;
    case Inst::Kind::Literal:
      what = "literal";
      break;
    case Inst::Kind::Result:
      what = text("result r", in.index);
      break;
    case Inst::Kind::Extent:
      what = text("extent ", in.index);
      break;
    case Inst::Kind::RowIndex:
      what = "row_index";
      break;
    case Inst::Kind::ColIndex:
      what = "col_index";
      break;
    case Inst::Kind::BatchIndex:
      what = "batch_index";
      break;
    case Inst::Kind::LoadAt:
      what = text("load o", in.index, " ", types::dtype_traits(program_.operands[in.index].dtype).name, " at");
      break;
  }
  if (in.kind == Inst::Kind::Op && in.op == types::Op::cast) what += text(" ", types::dtype_traits(in.aux).name);
  if (in.kind == Inst::Kind::Op || in.kind == Inst::Kind::LoadAt) {
    for (int i = 0; i < in.arity; ++i) what += text(" v", in.in[i]);
  }
  return text("  // v", id, ": ", types::dtype_traits(in.type).name, " = ", what);
}

std::string PhasePrinter::value_line(uint32_t id) {
  return text("const ", vector_of(inst(id).type), " v", id, " = ", value_text(id), ";", comment(id));
}

std::string PhasePrinter::value_text(uint32_t id) {
  const Inst& in = inst(id);
  switch (in.kind) {
    case Inst::Kind::Op:
      return op_text(in);
    case Inst::Kind::Accumulator:
      return convert_.convert(accumulator_(in.index), program_.accumulator, in.type, false);
    case Inst::Kind::Load:
      return load_text(in);
    case Inst::Kind::Scalar:
      return scalar_text(in);
    case Inst::Kind::Literal:
      return literal_text(in);
    case Inst::Kind::Result:
      return result_text(in);
    case Inst::Kind::Extent: {
      if (in.index > 2) {
        const size_t place = program_.arguments.size() + in.index - 3;
        return convert_.convert(text("splat<i64v>(", dialect_.scalars, "[", place, "].i)"), DType::i64, in.type, false);
      }
      const std::string_view extent = in.index == 0 ? "batches" : in.index == 1 ? "rows" : "cols";
      return convert_.convert(text("splat<i64v>(", dialect_.extents, extent, ")"), DType::i64, in.type, false);
    }
    case Inst::Kind::RowIndex:
      return convert_.convert(method("row_index") + "()", DType::i64, in.type, false);
    case Inst::Kind::ColIndex:
      return convert_.convert(method("col_index") + "()", DType::i64, in.type, false);
    case Inst::Kind::BatchIndex:
      return convert_.convert(method("batch_index") + "()", DType::i64, in.type, false);
    case Inst::Kind::LoadAt:
      return load_at_text(in);
  }
  return {};
}

std::string PhasePrinter::argument(const Inst& in, int i, DType type) {
  return convert_.convert(text("v", in.in[i]), inst(in.in[i]).type, type, false);
}

bool PhasePrinter::divides_by_row(const Inst& in) const {
  return dialect_.divides_by_one && in.kind == Inst::Kind::Op && in.op == types::Op::div && in.type == DType::f32 &&
         (nests_.variation[in.in[1]] & by_column) == 0 && (nests_.variation[in.in[0]] & by_column) != 0;
}

// What takes the value, where that is one instruction or one store alone.
std::optional<PhasePrinter::OneUse> PhasePrinter::one_use(uint32_t id) const {
  OneUse use;
  size_t uses = 0;
  for (const Inst& user : phase_.insts) {
    for (uint8_t i = 0; i < user.arity; ++i) {
      if (user.in[i] == id) ++uses, use.inst = &user;
    }
  }
  for (const package::Store& store : phase_.stores) {
    if (store.value == id) ++uses, use.store = &store;
  }
  if (uses != 1) return std::nullopt;
  return use;
}

// An exponential that is divided by a number of its row for a quotient that is rounded to 16 bits, and used for nothing
// else: what such a rounding leaves of its error is all that device/gpu/ulp.def has a bound for.
bool PhasePrinter::is_divided_exp(const Inst& in) const {
  if (in.kind != Inst::Kind::Op || in.op != types::Op::exp || in.type != DType::f32) return false;
  const auto id = static_cast<uint32_t>(&in - phase_.insts.data());
  const std::optional<OneUse> divided = one_use(id);
  if (!divided || divided->inst == nullptr || divided->inst->in[0] != id || !divides_by_row(*divided->inst))
    return false;
  const std::optional<OneUse> rounded = one_use(static_cast<uint32_t>(divided->inst - phase_.insts.data()));
  if (!rounded) return false;
  const Inst* const cast = rounded->inst;
  if (cast != nullptr && (cast->kind != Inst::Kind::Op || cast->op != types::Op::cast)) return false;
  const DType to = cast != nullptr ? cast->aux : program_.operands[rounded->store->operand].dtype;
  return to == DType::bf16 || to == DType::f16;
}

// Operands mostly have the type that the op computes in (Inst::aux); dropout's and where's do not.
std::string PhasePrinter::op_text(const Inst& in) {
  using types::Op;
  using types::OpRule;
  const types::OpInfo& info = types::op_info(in.op);
  const bool by_one = divides_by_row(in);
  const std::string function = text("ct_", info.name, by_one ? "_by" : "");
  std::vector<std::string> arguments;
  DType domain = in.type;
  if (!dialect_.quotients.empty() && is_divided_exp(in))
    return text("ct_exp_of(", dialect_.quotients, ", ", argument(in, 0, in.type), ")");
  if (by_one && !dialect_.quotients.empty())
    return text(is_divided_exp(inst(in.in[0])) ? "ct_quotient_of" : function, "(", dialect_.quotients, ", ",
                argument(in, 0, in.type), ", ", argument(in, 1, in.type), ")");
  if (in.op == Op::cast) return convert_.round_trip(text("v", in.in[0]), inst(in.in[0]).type, in.aux, in.type, true);
  if (in.op == Op::dropout) {
    arguments = {argument(in, 0, in.type), argument(in, 1, DType::f32), argument(in, 2, DType::u64),
                 argument(in, 3, DType::u64)};
  } else if (info.rule == OpRule::compare) {
    domain = types::is_bool(in.aux) ? DType::i32 : in.aux;  // true is above false; as lanes it is -1
    arguments = {argument(in, 0, domain), argument(in, 1, domain)};
  } else if (info.rule == OpRule::logical) {
    for (int i = 0; i < in.arity; ++i) arguments.push_back(argument(in, i, DType::boolean));
  } else {
    const int first = in.op == Op::where ? 1 : 0;
    if (first == 1) arguments.push_back(argument(in, 0, DType::boolean));
    for (int i = first; i < in.arity; ++i) arguments.push_back(argument(in, i, in.type));
  }
  return convert_.call(function, domain, joined(arguments, ", "));
}

std::string PhasePrinter::literal_text(const Inst& in) {
  const std::string_view v = vector_of(in.type);
  if (in.type == DType::f32) {
    return text("splat<", v, ">(", base::float_literal(std::bit_cast<float>(static_cast<uint32_t>(in.bits))), ")");
  }
  if (in.type == DType::f64) return text("splat<", v, ">(", base::double_literal(std::bit_cast<double>(in.bits)), ")");
  if (types::is_bool(in.type)) return text("splat<", v, ">(", in.bits != 0 ? "-1" : "0", ")");
  return text("splat<", v, ">(", integer_literal(in.bits, in.type, dialect_.long_long), ")");
}

std::string PhasePrinter::scalar_text(const Inst& in) {
  const DType held = types::compute_dtype(program_.arguments[in.index].dtype);
  const std::string_view field = held == DType::f32                                 ? "f"
                                 : held == DType::f64                               ? "d"
                                 : types::is_unsigned(held) || types::is_bool(held) ? "u"
                                                                                    : "i";
  std::string s = text(dialect_.scalars, "[", in.index, "].", field);
  if (types::is_bool(held)) s = text("-(i32)(", s, " != 0)");
  return convert_.convert(text("splat<", vector_of(held), ">(", s, ")"), held, in.type, false);
}

std::string PhasePrinter::load_text(const Inst& in) {
  const package::Operand& o = program_.operands[in.index];
  const std::string_view raw = dialect_.type(o.dtype).raw;
  std::string loaded;
  std::string_view name;
  switch (o.access) {
    case Access::Full:
      name = o.unit_stride ? "load_full" : "load_full_strided";
      break;
    case Access::Row:
      name = o.unit_stride ? "load_row" : "load_row_strided";
      break;
    case Access::Column:
      name = "load_column";
      break;
    case Access::Scalar:
      name = "load_scalar";
      break;
    case Access::Indexed:
      loaded = (emit::variation_of(o) & by_column) == 0 ? text("splat<", raw, ">(*(", row_pointer(in.index), "))")
               : run_of(in.index) > 1                   ? runs_text(in.index)
                                                        : indexed_text(in.index);
  }
  if (loaded.empty()) loaded = text(template_method(name), "<", raw, written_text(in.index), ">(o", in.index, ")");
  if (loads_early(in)) loaded = early_name(in);
  if ((emit::variation_of(o) & by_column) != 0 && run_of(in.index) > 1)
    loaded = text("spread<", raw, ">(", loaded, ")");
  return convert_.widen(std::move(loaded), o.dtype, in.type);
}

std::string PhasePrinter::indexed_text(uint32_t operand) {
  const package::Operand& o = program_.operands[operand];
  return text(template_method("load_indexed"), "<", dialect_.type(o.dtype).raw, ", ", block_of(o), dialect_.long_long,
              written_text(operand), ">(", row_pointer(operand), ", ", unit_of(operand), ", o", operand, "_column)");
}

std::string PhasePrinter::runs_text(uint32_t operand) {
  const package::Operand& o = program_.operands[operand];
  return text(template_method("load_runs"), "<", dialect_.type(o.dtype).element, ", ", run_of(operand), ", ",
              run_term(o).has_value(), ">(", row_pointer(operand), ", o", operand, "_column)");
}

// Strides and sizes of the gathered dims follow the operand's terms, in pairs.
std::string PhasePrinter::load_at_text(const Inst& in) {
  const package::Operand& o = program_.operands[in.index];
  const std::string_view raw = dialect_.type(o.dtype).raw;
  std::string offset;
  for (int i = 0; i < in.arity; ++i) {
    const size_t slot = o.terms.size() + 2 * static_cast<size_t>(i);
    const std::string step = text(method("gather_offset"), "(v", in.in[i], ", ", stride_name(in.index, slot), ", ",
                                  stride_name(in.index, slot + 1), ")");
    offset = i == 0 ? step : convert_.call("ct_add", DType::i64, offset + ", " + step);
  }
  // What no column decides is read where no column stands, once a row or once.
  const bool one = (nests_.variation[static_cast<size_t>(&in - phase_.insts.data())] & by_column) == 0;
  const std::string load = template_method(one ? "load_one_at" : "load_at");
  const std::string column = one ? "" : text("o", in.index, "_column, ");
  return convert_.widen(
      text(load, "<", raw, written_text(in.index), ">(", row_pointer(in.index), ", ", column, offset, ")"), o.dtype,
      in.type);
}

std::string PhasePrinter::result_text(const Inst& in) {
  const package::Reduction& r = program_.reductions[in.index];
  const bool shared = nests_.variation[static_cast<size_t>(&in - phase_.insts.data())] == uniform;
  const std::string_view name = r.axis == package::ReduceAxis::Row ? (shared ? "result_any_row" : "result_row")
                                : r.axis == package::ReduceAxis::Column
                                    ? (shared ? "result_any_column" : "result_column")
                                : r.axis == package::ReduceAxis::Item ? "result_item"
                                                                      : "result_all";
  return convert_.convert(text(template_method(name), "<", vector_of(r.type), ">(", in.index, ")"), r.type, in.type,
                          false);
}

std::string PhasePrinter::index_of(const package::IndexTerm& term, std::string_view coordinate) const {
  std::string index(coordinate);
  if (term.div != 1) index = text("(", index, " / ", term.div, ")");
  if (term.mod != 0) index = text("(", index, " % ", term.mod, ")");
  return index;
}

// The element at column 0 of the current row.
std::string PhasePrinter::row_pointer(uint32_t operand) const {
  std::string pointer = text("o", operand);
  const package::Operand& o = program_.operands[operand];
  for (size_t t = 0; t < o.terms.size(); ++t) {
    if (o.terms[t].axis == Axis::Col) continue;
    const std::string_view coordinate = o.terms[t].axis == Axis::Row ? "(f.tile.row + f.r)" : "f.tile.batch";
    pointer += text(" + ", stride_name(operand, t), " * ", index_of(o.terms[t], coordinate));
  }
  return pointer;
}

std::string PhasePrinter::unit_of(uint32_t operand) const {
  std::vector<std::string> strides;
  const package::Operand& o = program_.operands[operand];
  for (size_t t = 0; t < o.terms.size(); ++t) {
    if (o.terms[t].axis == Axis::Col && o.terms[t].div == 1) strides.push_back(stride_name(operand, t));
  }
  return strides.empty() ? "0" : joined(strides, " + ");
}

void PhasePrinter::print_indexed(uint32_t operand, PhaseText& out) {
  const package::Operand& o = program_.operands[operand];
  const std::string_view element = dialect_.type(o.dtype).element;
  out.setup.push_back(text(dialect_.memory, element, "* const o", operand, " = (", dialect_.memory, element, "*)",
                           dialect_.operands, "[", operand, "].data;"));
  std::vector<std::string> terms, strides;
  for (size_t t = 0; t < o.terms.size(); ++t) {
    out.setup.push_back(
        text("const i64 ", stride_name(operand, t), " = ", dialect_.operands, "[", operand, "].stride[", t, "];"));
    if (o.terms[t].axis != Axis::Col) continue;
    terms.push_back(text(stride_name(operand, t), " * ", index_of(o.terms[t], "col")));
    strides.push_back(stride_name(operand, t));
  }
  for (size_t t = o.terms.size(); t < o.terms.size() + 2 * o.gathered.size(); ++t) {
    out.setup.push_back(
        text("const i64 ", stride_name(operand, t), " = ", dialect_.operands, "[", operand, "].stride[", t, "];"));
  }
  if (terms.empty()) terms.emplace_back("col * 0");
  if (dialect_.closures) {
    out.setup.push_back(
        text("const auto o", operand, "_column = [=](i64 col) { return ", joined(terms, " + "), "; };"));
    return;
  }
  out.setup.push_back(text("struct O", operand, "Column {",
                           strides.empty() ? "" : " i64 " + joined(strides, ", ") + ";",
                           " i64 operator()(i64 col) const { return ", joined(terms, " + "), "; } };"));
  // What no column decides is mostly read without one.
  out.setup.push_back(text(strides.empty() ? "[[maybe_unused]] " : "", "const O", operand, "Column o", operand,
                           "_column{", joined(strides, ", "), "};"));
}

void PhasePrinter::print_operands(PhaseText& out) {
  std::set<uint32_t> used;
  for (const auto* list : {&nests_.uniform_values, &nests_.row_values, &nests_.full_values, &nests_.column_values}) {
    for (const uint32_t id : *list) {
      if (inst(id).kind == Inst::Kind::Load || inst(id).kind == Inst::Kind::LoadAt) used.insert(inst(id).index);
    }
  }
  // Wide outputs are told from operands: they may go past the caches (device/cpu/fragment.h).
  std::set<uint32_t> wide;
  int64_t wide_bytes = 0;
  for (const package::Store& store : phase_.stores) {
    used.insert(store.operand);
    const package::Operand& o = program_.operands[store.operand];
    if (!dialect_.streams || dialect_.registers || o.access != Access::Full || !o.unit_stride) continue;
    if (wide.insert(store.operand).second) wide_bytes += types::byte_size(o.dtype);
  }
  for (const uint32_t k : used) {
    const package::Operand& o = program_.operands[k];
    if (o.access == Access::Indexed) {
      print_indexed(k, out);
    } else {
      const std::string_view element = dialect_.type(o.dtype).element;
      needs_.emplace("ref", Domain::Common);
      if (wide.count(k) != 0) {
        out.setup.push_back(text("const Ref<", element, "> o", k, " = ", template_method("out"), "<", element, ">(", k,
                                 ", ", wide_bytes, ");"));
      } else {
        out.setup.push_back(
            text("const Ref<", element, "> o", k, " = ", dialect_.templated, "ref<", element, ">(", k, ");"));
      }
    }
  }
}

std::string PhasePrinter::store_line(const package::Store& store) {
  const package::Operand& o = program_.operands[store.operand];
  const std::string value = convert_.narrow(text("v", store.value), inst(store.value).type, o.dtype);
  const std::string operand = text("o", store.operand);
  switch (o.access) {
    case Access::Full:
      return text(method(o.unit_stride ? "put_full" : "put_full_strided"), "(", operand, ", ", value, ");");
    case Access::Row:
      return text(method(o.unit_stride ? "put_row" : "put_row_strided"), "(", operand, ", ", value, ");");
    case Access::Column:
      return text("if (", method("owns_column"), "(", operand, ")) ", method("put_one"), "(", operand, ", ", value,
                  ");");
    case Access::Scalar:
      return text("if (", method("owns_scalar"), "(", operand, ")) ", method("put_one"), "(", operand, ", ", value,
                  ");");
    case Access::Indexed:
      break;
  }
  if (const Variation holds = emit::variation_of(o); (holds & by_column) == 0) {
    return text("if (", method(holds == by_row ? "owns_column" : "owns_scalar"), "(", place_name(store.operand), ")) ",
                method("put_one"), "(", place_name(store.operand), ", ", value, ");");
  }
  return text(template_method("put_indexed"), "<", dialect_.type(o.dtype).raw, ", ", block_of(o), dialect_.long_long,
              ">(", row_pointer(store.operand), ", ", unit_of(store.operand), ", ", operand, "_column, ", value, ");");
}

// What is asked who owns it, and where its one element lies if columns make no difference.
std::string PhasePrinter::place_line(uint32_t operand) {
  const package::Operand& o = program_.operands[operand];
  std::vector<std::string> batches;
  for (size_t t = 0; t < o.terms.size(); ++t) {
    if (o.terms[t].axis == Axis::Batch) batches.push_back(stride_name(operand, t));
  }
  needs_.emplace("Ref", Domain::Common);
  return text("const Ref<", dialect_.type(o.dtype).element, "> ", place_name(operand), " = {", row_pointer(operand),
              ", 0, 0, ", batches.empty() ? "0" : joined(batches, " | "), "};");
}

void PhasePrinter::put_once(const package::Store& store, std::vector<std::string>& lines) {
  if (computes_place_once(program_.operands[store.operand])) lines.push_back(place_line(store.operand));
  lines.push_back(store_line(store));
}

void PhasePrinter::print_full_stores(PhaseText& out) {
  constexpr double most_clocks = 24;  // of a vector: a pair is compiled beside the single position
  double clocks = 0;
  for (const uint32_t id : nests_.full_values) {
    if (const Inst& in = inst(id); in.kind == Inst::Kind::Op) clocks += plan::vector_clocks(in.op, in.type);
  }
  const auto paired = [&](const package::Store& store) {
    const package::Operand& o = program_.operands[store.operand];
    return o.access == Access::Full && o.unit_stride && o.dtype == DType::bf16 && inst(store.value).type == DType::f32;
  };
  const auto& stores = nests_.full_stores;
  if (dialect_.pairs && clocks <= most_clocks &&
      std::any_of(stores.begin(), stores.end(), [&](uint32_t i) { return paired(phase_.stores[i]); })) {
    out.pair = out.full;
    for (const uint32_t i : stores) {
      const package::Store& store = phase_.stores[i];
      if (!paired(store)) {
        out.pair.push_back(store_line(store));
        continue;
      }
      out.pair_held.push_back(text("f32v w", i, ";"));
      out.pair.push_back(text(method("put_pair"), "(o", store.operand, ", v", store.value, ", w", i, ", right);"));
    }
  }
  for (const uint32_t i : stores) out.full.push_back(store_line(phase_.stores[i]));
}

std::string PhasePrinter::reducer(const package::Reduction& reduction) {
  static constexpr std::array<std::string_view, 5> names{"Sum", "Max", "Min", "LogSumExp", "SumExp"};
  const std::string_view name = names[static_cast<size_t>(reduction.kind)];
  needs_.emplace(name, domain_of(reduction.type));
  return text(name, "<", vector_of(reduction.type), ">");
}

std::string PhasePrinter::largest_of(const package::Reduction& reduction) const {
  if (reduction.kind != package::ReduceKind::Max) return {};
  for (const uint32_t k : nests_.reductions) {
    const package::Reduction& r = program_.reductions[k];
    if (r.kind == package::ReduceKind::SumExp && r.value == reduction.value && r.type == reduction.type)
      return text("q", k);
  }
  return {};
}

void PhasePrinter::print_reductions(PhaseText& out) {
  if (nests_.reductions.empty()) return;
  out.full.push_back(text("const boolv valid = ", method("valid_here"), "();"));
  for (const uint32_t k : nests_.reductions) {
    const package::Reduction& r = program_.reductions[k];
    const std::string type = reducer(r);
    const std::string value = convert_.convert(text("v", r.value), inst(r.value).type, r.type, false);
    if (r.axis == package::ReduceAxis::Column && dialect_.registers) {
      out.reducers.push_back({type, text("q", k), {}, {}});
      out.full.push_back(text("q", k, ".add(", value, ", valid);"));
      out.end.push_back(text("f.reduce_column(", k, ", q", k, ");"));
    } else if (r.axis == package::ReduceAxis::Column) {
      out.setup.push_back(text("auto* const p", k, " = ", method("column_partials"), "<", vector_of(r.type), ", ", type,
                               "::width>(", k, ");"));
      out.full.push_back(text(method("reduce_column"), "<", type, ">(p", k, ", ", value, ", valid);"));
    } else {
      const bool row = r.axis == package::ReduceAxis::Row;
      if (row && dialect_.registers) {
        const std::string sum = largest_of(r);
        out.row_states.push_back({type, text("q", k), text(k), sum});
        if (!sum.empty()) continue;
        out.full.push_back(text("q", k, ".add(", value, ", valid);"));
        continue;
      }
      if (row)
        out.row.push_back(text(type, " q", k, ";"));
      else
        out.reducers.push_back({type, text("q", k), {}, {}});
      out.full.push_back(text("q", k, ".add(", value, ", valid);"));
      (row ? out.row_end : out.end).push_back(text(method(row ? "reduce_row" : "reduce_all"), "(", k, ", q", k, ");"));
    }
  }
}

PhaseText PhasePrinter::print() {
  PhaseText out;
  print_operands(out);
  for (const uint32_t id : nests_.uniform_values) out.setup.push_back(value_line(id));
  for (const uint32_t i : nests_.scalar_stores) put_once(phase_.stores[i], out.setup);
  for (const uint32_t id : nests_.row_values) out.row.push_back(value_line(id));
  for (const uint32_t i : nests_.column_stores) put_once(phase_.stores[i], out.row);
  for (const uint32_t id : nests_.full_values) {
    const bool early = dialect_.registers && nests_.variation[id] == by_column;
    (early ? out.by_column : out.full).push_back(value_line(id));
    if (const Inst& in = inst(id); loads_early(in)) {
      const package::Operand& o = program_.operands[in.index];
      const TypeNames& type = dialect_.type(o.dtype);
      if (o.access == Access::Indexed) {
        const int64_t rows = dialect_.runs ? plan::run_along(o, Axis::Row) : 1, run = run_of(in.index);
        if (run > 1) {
          out.loads.push_back(
              {text("Runs<", type.element, ", ", run, ">"), early_name(in), runs_text(in.index), {}, rows, run});
        } else {
          out.loads.push_back({std::string(type.raw), early_name(in), indexed_text(in.index), {}, rows});
        }
        continue;
      }
      out.loads.push_back(
          {std::string(type.raw), early_name(in),
           text(template_method("load_full"), "<", type.raw, written_text(in.index), ">(o", in.index, ")"),
           text("const Ref<", type.element, "> o", in.index, " = ", dialect_.templated, "ref<", type.element, ">(",
                in.index, ");")});
    }
  }
  print_reductions(out);
  print_full_stores(out);
  for (const uint32_t id : nests_.column_values) out.column.push_back(value_line(id));
  std::vector<std::string> guards;
  for (const uint32_t i : nests_.row_stores) {
    const package::Store& store = phase_.stores[i];
    const bool computed = computes_place_once(program_.operands[store.operand]);
    if (computed) out.setup.push_back(place_line(store.operand));
    const std::string guard =
        text(method("owns_row"), "(", computed ? place_name(store.operand) : text("o", store.operand), ")");
    guards.push_back(guard);
    out.column.push_back(text("if (", guard, ") ", store_line(store)));
  }
  out.column_guard = joined(guards, " || ");
  out.has_full_work = nests_.has_full_work();
  out.stores_rows = !nests_.column_stores.empty();
  return out;
}

}  // namespace

int64_t column_block(const package::Operand& operand) {
  int64_t block = 0;
  for (const package::IndexTerm& term : operand.terms) {
    if (term.axis != Axis::Col) continue;
    if (term.div != 1)
      block = std::gcd(block, term.div);
    else if (term.mod != 0)
      block = std::gcd(block, term.mod);
  }
  return block == 0 ? int64_t{1} << 62 : block;
}

std::optional<size_t> unit_term(const package::Operand& operand) {
  std::optional<size_t> unit;
  if (operand.access != Access::Indexed || !operand.gathered.empty()) return unit;
  for (size_t t = 0; t < operand.terms.size(); ++t) {
    const package::IndexTerm& term = operand.terms[t];
    if (term.axis != Axis::Col || term.div != 1) continue;
    if (unit || term.dim != 0 || !(term.scale == types::Dim::constant(1))) return std::nullopt;
    unit = t;
  }
  return unit;
}

std::optional<size_t> run_term(const package::Operand& operand) {
  constexpr int64_t most_lanes = 16;
  const int64_t run = plan::run_along(operand, Axis::Col);
  std::optional<size_t> unit;
  for (size_t t = 0; t < operand.terms.size(); ++t) {
    const package::IndexTerm& term = operand.terms[t];
    if (term.axis != Axis::Col || (term.div != run && term.div % most_lanes == 0)) continue;
    const bool side = term.div == run && term.dim == 0 && term.scale == types::Dim::constant(1) &&
                      (term.mod == 0 || term.mod * run % most_lanes == 0);
    if (unit || !side) return std::nullopt;
    unit = t;
  }
  return unit;
}

bool is_written(const package::EpilogueProgram& program, uint32_t operand) {
  const uint32_t input = program.operands[operand].argument;
  for (uint32_t output = 0; output < program.arguments.size(); ++output) {
    if (!program.arguments[output].is_output) continue;
    // Batches and a product only make less of it possible.
    if (plan::may_be_in_place(program, false, input, output) || plan::may_be_in_place_of_one(program, input, output))
      return true;
  }
  return false;
}

void put_lines(base::CodeWriter& out, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) out.line(line);
}

void put_setup(base::CodeWriter& out, const PhaseText& phase) {
  put_lines(out, phase.setup);
  for (const Held& reducer : phase.reducers) out.line(reducer.type, " ", reducer.name, ";");
}

void take_largest(base::CodeWriter& out, const PhaseText& phase, std::string_view before, std::string_view behind) {
  for (const Held& state : phase.row_states) {
    if (!state.setup.empty()) out.line(before, state.name, behind, ".take(", before, state.setup, behind, ");");
  }
}

Result<PhaseText> print_phase(const package::EpilogueProgram& program, uint32_t phase, const Dialect& dialect,
                              bool comments, const AccumulatorText& accumulator,
                              std::set<PartLibrary::Request>& needs) {
  CODETTA_TRY(const Nests nests, make_nests(program, phase));
  return PhasePrinter(program, phase, dialect, comments, accumulator, needs, nests).print();
}

}  // namespace codetta::emit
