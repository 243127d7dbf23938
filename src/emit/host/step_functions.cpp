// SPDX-License-Identifier: Apache-2.0
#include "emit/host/step_functions.hpp"

#include "emit/host/signature.hpp"
#include "emit/host/text.hpp"

namespace codetta::emit::host {

using base::CodeWriter;

namespace {

constexpr char text_mark = '\x1e';

// Those that stay in the function of their branch or loop; all where `apart` is none.
template <class IsApart>
size_t weight_in(const package::Package& package, const package::Step& step, const IsApart& is_apart) {
  const auto of_list = [&](uint32_t index) {
    const package::StepList& list = package.step_lists[index];
    size_t all = 0;
    if (is_apart(list)) return all;
    for (const package::Step& inner : list) all += weight_in(package, inner, is_apart);
    return all;
  };
  if (const auto* branch = std::get_if<package::If>(&step))
    return 1 + of_list(branch->then_list) + of_list(branch->else_list);
  if (const auto* loop = std::get_if<package::While>(&step)) return 1 + of_list(loop->condition) + of_list(loop->body);
  const bool works = std::holds_alternative<package::LaunchKernel>(step) ||
                     std::holds_alternative<package::CallExtern>(step) ||
                     std::holds_alternative<package::IndexPut>(step) || std::holds_alternative<package::Scatter>(step);
  return works ? 4 : 1;
}

size_t whole_weight(const package::Package& package, const package::StepList& list) {
  size_t all = 0;
  for (const package::Step& step : list)
    all += weight_in(package, step, [](const package::StepList&) { return false; });
  return all;
}

}  // namespace

size_t weight_of(const package::Package& package) { return whole_weight(package, package.steps); }

std::string step_function(size_t index) { return CodeWriter::text_of("steps_", index); }

void StepFunctions::begin(const package::StepList& list, size_t parts) {
  const std::string name = step_function(++begun_);
  auto section = out_.section(name);
  begin_text(out_, name);
  auto block = out_.block("Status ", name, "(", frame_type_, "& frame, [[maybe_unused]] Shared& s)");
  for (const std::string& line : head_) out_.line(line);
  open_.push_back({std::move(section), std::move(block), &list, parts, 0});
}

void StepFunctions::end() { open_.pop_back(); }

size_t StepFunctions::weight(const package::Step& step) const {
  return weight_in(package_, step, [this](const package::StepList& list) { return is_apart(list); });
}

bool StepFunctions::is_full(const package::StepList& list, size_t step) const {
  const Open& open = open_.back();
  return open.list == &list && open.weight > 0 && open.weight + weight(list[step]) > most_step_weight;
}

void StepFunctions::add(const package::StepList& list, size_t step) {
  if (open_.back().list == &list) open_.back().weight += weight(list[step]);
}

bool StepFunctions::add_look() {
  constexpr size_t weight_of_launch = 4;
  open_.back().weight += weight_of_launch;
  return open_.back().weight > most_step_weight;
}

bool StepFunctions::is_apart(const package::StepList& list) const {
  return computed_inside(package_).empty() && whole_weight(package_, list) > most_step_weight / 2;
}

void print_shared_steps(CodeWriter& out, const Program& program, const std::map<std::string, std::string>& sizes,
                        size_t parts, const std::string& frame_type) {
  const package::Package& package = *program.package;
  out.line("// Of the functions of one run of the steps.");
  const auto all = out.block_with("};", "struct Shared");
  for (const auto& [symbol, variable] : sizes)
    out.line("Number ", variable.substr(variable.find('.') + 1), " = ", first_number(program, symbol), ";  // ",
             comment_text(symbol));
  for (size_t i = 0; i < package.pools.size(); ++i) out.line("i64 pool_", i, " = 0;");
  std::map<uint32_t, uint32_t> results;  // how many outputs they have
  const auto add = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      const auto* call = std::get_if<package::CallExtern>(&step);
      if (call != nullptr && call->form == package::CallExtern::Form::Alloc)
        results.emplace(call->result, static_cast<uint32_t>(call->output_count));
    }
  };
  add(package.steps);
  for (const package::StepList& list : package.step_lists) add(list);
  for (const auto& [result, count] : results) out.line("ExternResults<", count, "> result_", result, ";");
  for (size_t i = 0; i < parts; ++i) out.line(frame_type, "* part_", i, " = nullptr;");
}

void begin_text(CodeWriter& out, const std::string& name) { out.raw(text_mark + name); }

std::vector<File> texts_of(const CodeWriter& out) {
  std::vector<File> texts{{}};
  const std::string all = out.str();
  for (size_t at = 0; at < all.size();) {
    const size_t next = all.find(text_mark, at), end = next == std::string::npos ? all.size() : next;
    texts.back().text = all.substr(at, end - at);
    if (next == std::string::npos) break;
    if (texts.back().text.ends_with("\n\n")) texts.back().text.pop_back();  // between sections
    at = all.find('\n', next) + 1;
    texts.push_back({all.substr(next + 1, at - next - 2), {}});
  }
  return texts;
}

DividedSteps steps_in(const CodeWriter& out, std::string frame_type) {
  DividedSteps divided;
  divided.frame_type = std::move(frame_type);
  const std::vector<File> texts = texts_of(out);
  divided.first = texts.front().text;
  for (size_t i = 1; i < texts.size(); ++i) {
    if (texts[i].name == "shared") {
      divided.shared = texts[i].text;
    } else {
      divided.functions.push_back(texts[i].text);
    }
  }
  return divided;
}

}  // namespace codetta::emit::host
