// SPDX-License-Identifier: Apache-2.0
#include "plan/user_hook.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "ir/kernel_names.hpp"
#include "plan/user_pragmas.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using diag::Span;
using types::Dim;

namespace {

constexpr std::string_view one_hook = "a kernel hands over one of its results; let the others be tensors";

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Where the word stands on its own from `at` on.
size_t find_word(std::string_view code, std::string_view word, size_t at) {
  for (; (at = code.find(word, at)) != std::string_view::npos; ++at) {
    const bool begins = at == 0 || !is_word(code[at - 1]);
    const bool ends = at + word.size() == code.size() || !is_word(code[at + word.size()]);
    if (begins && ends) return at;
  }
  return std::string_view::npos;
}

Span span_at(size_t at, size_t size) { return {static_cast<uint32_t>(at), static_cast<uint32_t>(at + size)}; }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// From where to where each parameter, or argument, stands in the list that is opened there.
using Places = std::vector<std::pair<size_t, size_t>>;
Places list_behind(std::string_view code, size_t at, char opening = '(') {
  Places places;
  while (at < code.size() && is_blank(code[at])) ++at;
  if (at == code.size() || code[at] != opening) return places;
  size_t begin = at + 1;
  std::string open(1, opening == '(' ? ')' : '>');  // what is still to come, the innermost last
  for (size_t i = begin; i < code.size() && !open.empty(); ++i) {
    const char c = code[i];
    const bool compares = open.find_first_not_of('>', 1) != std::string::npos;  // < and > inside of other brackets
    if (c == ',' && open.size() == 1) {
      places.emplace_back(begin, i);
      begin = i + 1;
    }
    if (c == '(' || c == '[' || c == '{' || (c == '<' && !compares)) {
      open += c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>';
    } else if (c == ')' || c == ']' || c == '}') {
      while (open.size() > 1 && open.back() == '>') open.pop_back();  // it was a comparison
      open.pop_back();
    } else if (c == '>' && !compares && open.back() == '>') {
      open.pop_back();
    }
    if (open.empty()) places.emplace_back(begin, i);
  }
  return places;
}

std::string_view word_before(std::string_view code, size_t at) {
  while (at > 0 && is_blank(code[at - 1])) --at;
  size_t begin = at;
  while (begin > 0 && is_word(code[begin - 1])) --begin;
  return code.substr(begin, at - begin);
}

// The lists behind the kernel's name wherever the code has it: of a declaration, of the definition, or of a call.
std::vector<Places> lists_of(std::string_view code, std::string_view name, bool of_calls) {
  std::vector<Places> lists;
  for (size_t at = find_word(code, name, 0); at != std::string_view::npos; at = find_word(code, name, at + 1)) {
    const std::string_view before = word_before(code, at);
    const bool declares = !before.empty() && before != "return" && before != "else" && before != "do";
    if (!declares && !of_calls) continue;
    if (Places places = list_behind(code, at + name.size()); !places.empty()) lists.push_back(std::move(places));
  }
  return lists;
}

// Where a parameter is named: the last word of several. Of `const int64_t` it is the type.
std::optional<std::pair<size_t, size_t>> name_in(std::string_view code, std::pair<size_t, size_t> place) {
  const auto [first, last] = place;
  size_t end = last;
  while (end > first && is_blank(code[end - 1])) --end;
  size_t begin = end;
  while (begin > first && is_word(code[begin - 1])) --begin;
  size_t before = begin;
  while (before > first && is_blank(code[before - 1])) --before;
  if (begin == end || before == first) return std::nullopt;
  const char sign = code[before - 1];
  if (sign == '>' || sign == '*' || sign == '&') return std::pair(begin, end);
  const std::string_view type = word_before(code.substr(first), before - first);
  if (type.empty() || type == "const" || type == "volatile" || type == "struct" || type == "class") return std::nullopt;
  return std::pair(begin, end);
}

// A parameter that is called as a type of the others hides it.
Result<void> check_parameter_names(const UserSource& source) {
  const Pragmas pragmas(source);
  const std::string_view code = pragmas.code();
  for (const Places& list : lists_of(code, source.name, false)) {
    for (size_t p = 0; p < list.size(); ++p) {
      const auto place = name_in(code, list[p]);
      if (!place) continue;
      const std::string_view name = code.substr(place->first, place->second - place->first);
      const std::string_view why = ir::taken_in_kernels(name);
      if (why.empty()) continue;
      return diag::error(diag::Code::extern_name,
                         fmt::format("{} cannot name parameter {} of kernel {}", name, p + 1, source.name))
          .at(pragmas.locate(span_at(place->first, name.size())))
          .reason(std::string(why))
          .help("rename the parameter");
    }
  }
  return {};
}

constexpr std::string_view hook_type = "Hook";

// Hook<T, rank> at this place is of the result's type, as far as it is written out: what the source names itself is
// compared by the compiler.
Result<void> check_hook_type(const Pragmas& pragmas, size_t at, size_t index, const ir::TensorType& result) {
  const std::string_view code = pragmas.code();
  const Places places = list_behind(code, at + hook_type.size(), '<');
  if (places.size() < 2 || result.shape.empty()) return {};
  const auto argument = [&](size_t i) {
    return base::trim(code.substr(places[i].first, places[i].second - places[i].first));
  };
  std::string_view type = argument(0);
  if (type.starts_with("codetta::")) type.remove_prefix(9);
  bool differs = false;
  for (int i = 0; i < dtype_count; ++i)
    differs = differs || (type == user_element_type(static_cast<DType>(i)) && static_cast<DType>(i) != result.dtype);
  const std::optional<int64_t> rank = base::parse_int64(argument(1));
  if (!differs && (!rank || *rank == static_cast<int64_t>(result.shape.size()))) return {};
  const size_t end = places.back().second + 1;
  return pragmas.wrong(span_at(at, end - at),
                       fmt::format("result {} of the call is {}, and this takes {} dims of {}", index,
                                   ir::to_string(result), argument(1), argument(0)),
                       fmt::format("write Hook<{}, {}>", user_element_type(result.dtype), result.shape.size()));
}

// Whether the source declares the name for itself.
bool has_its_own(std::string_view code, std::string_view name) {
  for (size_t at = find_word(code, name, 0); at != std::string_view::npos; at = find_word(code, name, at + 1)) {
    const std::string_view before = word_before(code, at);
    if (before == "struct" || before == "class" || before == "using" || before == "define") return true;
  }
  return false;
}

// The name that the Hook<...> at this place gets: of using, typedef, or a macro; or "".
std::string_view name_given(std::string_view code, size_t at) {
  std::string_view before = base::trim(code.substr(0, at));
  if (before.ends_with("::")) before = base::trim(before.substr(0, before.rfind("codetta")));
  if (before.ends_with("=")) {
    const size_t equals = before.size() - 1;
    const std::string_view name = word_before(before, equals);
    const auto first = static_cast<size_t>(name.data() - code.data());
    return word_before(code, first) == "using" ? name : std::string_view();
  }
  const std::string_view word = word_before(before, before.size());
  if (word == "typedef") {
    const Places places = list_behind(code, at + hook_type.size(), '<');
    if (places.empty()) return {};
    size_t begin = places.back().second + 1;
    while (begin < code.size() && is_blank(code[begin])) ++begin;
    size_t end = begin;
    while (end < code.size() && is_word(code[end])) ++end;
    return code.substr(begin, end - begin);
  }
  if (word.empty()) return {};
  return word_before(code, static_cast<size_t>(word.data() - code.data())) == "define" ? word : std::string_view();
}

Result<std::optional<size_t>> hook_of_cpp(const UserSource& source, size_t operands,
                                          const std::vector<ir::TensorType>& results) {
  const Pragmas pragmas(source);
  const std::string_view code = pragmas.code();
  for (const Places& list : lists_of(code, source.name, true)) {
    std::optional<std::pair<size_t, size_t>> found;  // which parameter, and where
    for (size_t parameter = 0; parameter < list.size(); ++parameter) {
      const size_t here = find_word(code.substr(0, list[parameter].second), hook_type, list[parameter].first);
      if (here == std::string_view::npos) continue;
      if (found) {
        return pragmas.wrong(span_at(here, hook_type.size()),
                             fmt::format("parameters {} and {} are hooks", found->first + 1, parameter + 1),
                             std::string(one_hook));
      }
      found.emplace(parameter, here);
    }
    if (!found) continue;
    if (found->first < operands || found->first >= operands + results.size()) {
      return pragmas.wrong(span_at(found->second, hook_type.size()),
                           fmt::format("parameter {} is a hook, and the call has {} operands and then {} result{}",
                                       found->first + 1, operands, results.size(), results.size() == 1 ? "" : "s"),
                           "only a result can be handed over: operands come first");
    }
    const size_t result = found->first - operands;
    CODETTA_CHECK_OK(check_hook_type(pragmas, found->second, result, results[result]));
    return std::optional<size_t>(found->first);
  }
  // By another name it is not seen that a parameter is one.
  for (size_t at = find_word(code, hook_type, 0); at != std::string_view::npos && !has_its_own(code, hook_type);
       at = find_word(code, hook_type, at + 1)) {
    const std::string_view name = name_given(code, at);
    if (name.empty()) continue;
    for (const Places& list : lists_of(code, source.name, true)) {
      const bool takes = std::any_of(list.begin(), list.end(), [&](const auto& place) {
        return find_word(code.substr(0, place.second), name, place.first) != std::string_view::npos;
      });
      if (!takes) continue;
      return pragmas.wrong(span_at(at, hook_type.size()),
                           fmt::format("{} takes one as {}, of which it cannot be seen", source.name, name),
                           "write Hook<T, rank> in the list of parameters itself, in the place of a result");
    }
  }
  return std::optional<size_t>();
}

Result<std::optional<size_t>> hook_of_gpu(const UserSource& source, size_t operands, size_t results) {
  const Pragmas pragmas(source);
  CODETTA_TRY(const std::vector<Clause> clauses, pragmas.clauses());
  const Clause *hook = nullptr, *kernel = nullptr;
  for (const Clause& clause : clauses) {
    if (clause.word == "kernel" && kernel == nullptr) kernel = &clause;
    if (clause.word != "hook") continue;
    if (hook != nullptr) return pragmas.wrong(clause.span, "there are two hooks", std::string(one_hook));
    hook = &clause;
  }
  if (hook == nullptr) return std::optional<size_t>();
  const std::string help = "write hook(y), with the name of one result of kernel(...)";
  if (!hook->condition.empty())
    return pragmas.wrong(hook->span, "what the kernel takes does not depend on its configuration", help);
  if (hook->inside.size() != 2 || hook->inside[0].kind != Token::Kind::Name)
    return pragmas.wrong(hook->span, "the hook names no result", help);
  // Without parameters, and where these are wrong, that is told when the launch is read.
  if (kernel == nullptr) return std::optional<size_t>();
  const Token name = hook->inside[0];
  size_t parameter = 0;
  bool begins = true, result = false;
  int depth = 0;
  for (const Token& token : kernel->inside) {
    if (begins && token.text == "out") {
      result = true;
      continue;
    }
    if (begins && token.text == name.text) {
      if (result && parameter >= operands && parameter < operands + results) return std::optional<size_t>(parameter);
      return pragmas.wrong(name.span, fmt::format("{} is no result of the call", name.text), help);
    }
    begins = false;
    depth += token.text == "[" || token.text == "(" ? 1 : token.text == "]" || token.text == ")" ? -1 : 0;
    if (depth == 0 && token.text == ",") {
      ++parameter;
      begins = true;
      result = false;
    }
  }
  return pragmas.wrong(name.span, fmt::format("{} is no parameter of the kernel", name.text), help);
}

}  // namespace

std::string_view user_element_type(DType dtype) {
  constexpr std::string_view names[] = {"bool",        "int8_t",   "int16_t",  "int32_t",  "int64_t",
                                        "uint8_t",     "uint16_t", "uint32_t", "uint64_t", "float8_e4m3",
                                        "float8_e5m2", "float16",  "bfloat16", "float",    "double"};
  return names[static_cast<size_t>(dtype)];
}

Result<std::optional<size_t>> hooked_parameter(const UserSource& source, size_t operands,
                                               const std::vector<ir::TensorType>& results) {
  const bool gpu = source.language == UserSource::Language::Cuda || source.language == UserSource::Language::Hip;
  if (!gpu && source.language != UserSource::Language::Cpp) return std::optional<size_t>();
  CODETTA_CHECK_OK(check_parameter_names(source));
  return gpu ? hook_of_gpu(source, operands, results.size()) : hook_of_cpp(source, operands, results);
}

bool has_hooks(const UserSource& source) {
  const Pragmas pragmas(source);
  const std::string_view code = pragmas.code();
  return find_word(code, hook_type, 0) != std::string_view::npos && !has_its_own(code, hook_type);
}

std::optional<Rejection> hook_obstacle(const package::EpilogueProgram& program) {
  const auto no = [](diag::Code code, std::string text) {
    return Rejection{static_cast<uint16_t>(code), {}, std::move(text), {}};
  };
  if (!program.reductions.empty() || program.phases.size() != 1)
    return no(diag::Code::reduction_axes, "a kernel of the user's hands over single elements, in no order");
  if (program.split.ways != 1)
    return no(diag::Code::split_unsupported, "parts of a split are not handed over at the same time");
  for (const package::Operand& operand : program.operands) {
    const auto constant = [](const Dim& dim) { return dim.as_constant().has_value(); };
    const bool plain = std::all_of(operand.terms.begin(), operand.terms.end(),
                                   [&](const auto& term) { return constant(term.scale); }) &&
                       std::all_of(operand.offsets.begin(), operand.offsets.end(),
                                   [&](const auto& offset) { return constant(offset.second); });
    if (!plain)
      return no(diag::Code::symbolic_layout, fmt::format("{} is read at places that symbolic sizes decide",
                                                         program.arguments[operand.argument].name));
    const auto along = [&](package::Axis axis) {
      return std::any_of(operand.terms.begin(), operand.terms.end(),
                         [&](const auto& term) { return term.axis == axis; });
    };
    const bool elements = along(package::Axis::Row) && along(package::Axis::Col);
    if (operand.is_store && !elements)
      return no(diag::Code::position_conflict,
                fmt::format("{} has fewer elements than are handed over", program.arguments[operand.argument].name));
  }
  return std::nullopt;
}

void add_plain_store(package::EpilogueProgram& program, const ir::TensorType& type) {
  package::Inst held;
  held.kind = package::Inst::Kind::Accumulator;
  held.type = held.aux = program.accumulator = types::compute_dtype(type.dtype);
  package::Operand store;
  store.argument = static_cast<uint32_t>(program.arguments.size() - 1);
  store.dtype = type.dtype;
  store.is_store = true;
  // Leading dims are one, with the stride of the last of them; of one dim there is one row.
  const size_t rank = type.shape.size();
  const auto vary = [&](package::Axis axis, size_t from_last) {
    store.terms.push_back({axis, 1, 0, static_cast<uint8_t>(from_last), Dim::constant(1)});
  };
  if (rank > 2) vary(package::Axis::Batch, 2);
  vary(package::Axis::Row, rank > 1 ? 1 : 0);
  vary(package::Axis::Col, 0);
  program.operands.push_back(std::move(store));
  program.phases.push_back({package::Scope::Tile, true, {held}, {{0, 0}}});
}

std::optional<std::vector<UserHook::Size>> hooked_sizes(const std::vector<Dim>& shape,
                                                        const std::vector<package::Argument>& arguments) {
  std::vector<UserHook::Size> sizes;
  for (const Dim& dim : shape) {
    if (const auto known = dim.as_constant()) {
      sizes.push_back({*known, 0, 0});
      continue;
    }
    bool found = false;
    for (size_t a = 0; a < arguments.size() && !found; ++a) {
      for (size_t d = 0; d < arguments[a].shape.size() && !found; ++d) {
        found = arguments[a].shape[d] == dim;
        if (found) sizes.push_back({std::nullopt, a, d});
      }
    }
    if (!found) return std::nullopt;
  }
  return sizes;
}

std::vector<HookStride> hook_strides(const package::Operand& operand) {
  std::vector<HookStride> strides;
  for (size_t t = 0; t < operand.terms.size(); ++t) {
    const bool indexed = operand.access == package::Access::Indexed;
    const size_t place = indexed ? t : static_cast<size_t>(operand.terms[t].axis);
    const auto known =
        std::find_if(strides.begin(), strides.end(), [&](const auto& one) { return one.place == place; });
    (known == strides.end() ? strides.emplace_back(HookStride{place, {}}) : *known).terms.push_back(t);
  }
  return strides;
}

std::vector<Dim> hook_numbers(const package::EpilogueProgram& program, const UserHook& hook,
                              const std::function<Dim(size_t, size_t)>& stride) {
  std::vector<Dim> numbers = hook.shape;
  for (const package::Operand& operand : program.operands) {
    Dim start = Dim::constant(0);
    for (const auto& [dim, count] : operand.offsets) start = start + count * stride(operand.argument, dim);
    if (!operand.offsets.empty()) numbers.push_back(std::move(start));
    for (const HookStride& one : hook_strides(operand)) {
      Dim sum = Dim::constant(0);
      for (const size_t t : one.terms)
        sum = sum + operand.terms[t].scale * stride(operand.argument, operand.terms[t].dim);
      numbers.push_back(std::move(sum));
    }
  }
  return numbers;
}

}  // namespace codetta::plan
