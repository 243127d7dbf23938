// SPDX-License-Identifier: Apache-2.0
// The same values in one of many spellings.
#include <algorithm>
#include <map>
#include <set>

#include "differential/random_walk.hpp"

namespace codetta::test {
namespace {

class Printer {
 public:
  Printer(const std::vector<Value>& values, const std::vector<size_t>& outputs, std::vector<std::string> names,
          std::mt19937_64& random)
      : values_(values), outputs_(outputs), names_(std::move(names)), random_(random), uses_(values.size()) {}

  void run(EpilogueSpec& spec) {
    find_live();
    nested_ = one_in(3);
    helped_ = one_in(4);
    commented_ = one_in(5);
    const bool one_line = !helped_ && one_in(5);
    std::vector<ParameterSpec> used;
    names_.resize(values_.size());
    names_[0] = "accum";
    std::string head = "def epilogue(accum";
    for (const size_t id : live_) {
      const Value& value = values_[id];
      if (value.operand >= 0) {
        used.push_back(spec.parameters[static_cast<size_t>(value.operand)]);
        names_[id] = used.back().name;
        head += ", " + used.back().name + (commented_ && one_in(3) ? ": 'any'" : "");
      } else if (names_[id].empty()) {
        names_[id] = "v" + std::to_string(id);
      }
    }
    std::vector<std::string> lines;
    for (const size_t id : live_) {
      if (!values_[id].expression.empty() && !inlined(id)) lines.push_back(statement(id));
    }
    std::string results;
    for (const OutputSpec& output : spec.outputs) results += (results.empty() ? "" : ", ") + output.name;
    lines.push_back("return " + results);
    std::string text = helpers_ + head + "):";
    if (one_line) {
      for (size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? " " : "; ") + lines[i];
    } else {
      if (commented_) text += "  # drawn at random\n    \"\"\"One of many.\"\"\"\n";
      for (const std::string& line : lines)
        text += (text.back() == '\n' ? "    " : "\n    ") + line + (commented_ && one_in(3) ? "  # so\n" : "");
    }
    spec.text = text + "\n";
    for (OutputSpec& output : spec.outputs) {
      const bool kept =
          std::any_of(used.begin(), used.end(), [&](const ParameterSpec& p) { return p.name == output.same_as; });
      if (!kept) output.same_as.clear();
    }
    spec.parameters = std::move(used);
  }

 private:
  bool one_in(size_t n) { return random_() % n == 0; }

  void find_live() {
    std::vector<size_t> work = outputs_;
    for (const size_t id : outputs_) uses_[id] += 2;  // has a name
    while (!work.empty()) {
      const size_t id = work.back();
      work.pop_back();
      if (!live_.insert(id).second) continue;
      const Value& value = values_[id];
      for (const size_t use : value.uses) work.push_back(use);
      for (size_t at = value.expression.find('\x01'); at != std::string::npos;
           at = value.expression.find('\x01', at + 1))
        ++uses_[static_cast<size_t>(std::stoul(value.expression.substr(at + 1)))];
      if (value.parts_of != id || id == 0) continue;
      for (size_t later = id + 1; later < values_.size() && values_[later].parts_of == id; ++later)
        work.push_back(later);
    }
    for (const size_t id : live_) {
      const Value& value = values_[id];
      may_inline_.push_back(!value.expression.empty() && value.parts_of == 0 && uses_[id] == 1 && !one_in(3));
    }
  }
  [[nodiscard]] bool inlined(size_t id) const {
    const auto at = live_.find(id);
    return nested_ && at != live_.end() && may_inline_[static_cast<size_t>(std::distance(live_.begin(), at))];
  }

  // Values that are not inlined are written as `name` says.
  template <class Name>
  std::string expanded(const std::string& expression, const Name& name) const {
    std::string text;
    for (size_t at = 0; at < expression.size(); ++at) {
      if (expression[at] != '\x01') {
        text += expression[at];
        continue;
      }
      const size_t end = expression.find('\x02', at);
      const size_t id = std::stoul(expression.substr(at + 1, end - at - 1));
      text += inlined(id) ? "(" + expanded(values_[id].expression, name) + ")" : name(id);
      at = end;
    }
    return text;
  }

  std::string statement(size_t id) {
    std::vector<size_t> parts{id};
    for (size_t later = id + 1; later < values_.size() && values_[id].parts_of == id && values_[later].parts_of == id;
         ++later)
      parts.push_back(later);
    std::string left;
    for (const size_t part : parts) left += (left.empty() ? "" : ", ") + names_[part];
    if (!helped_ || one_in(2))
      return left + " = " + expanded(values_[id].expression, [&](size_t x) { return names_[x]; });
    return left + " = " + helper(id, parts.size());
  }

  // A function of its own; every third is called through another.
  std::string helper(size_t id, size_t results) {
    std::vector<size_t> arguments;
    const std::string body = expanded(values_[id].expression, [&](size_t x) {
      const auto at = std::find(arguments.begin(), arguments.end(), x);
      const auto index = static_cast<size_t>(at - arguments.begin());
      if (at == arguments.end()) arguments.push_back(x);
      return "a" + std::to_string(index);
    });
    std::string parameters, given, named;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string parameter = "a" + std::to_string(i), separator = i == 0 ? "" : ", ";
      parameters += separator + parameter;
      given += separator + names_[arguments[i]];
      named = parameter + "=" + names_[arguments[i]] + (i == 0 ? "" : ", ") + named;
    }
    std::string name = "h" + std::to_string(id);
    if (results == 1 && one_in(2)) {
      helpers_ += "def " + name + "(" + parameters + "): return " + body + "\n";
    } else {
      std::string made;
      for (size_t i = 0; i < results; ++i) made += (i == 0 ? "r" : ", r") + std::to_string(i);
      helpers_ += "def " + name + "(" + parameters + "):\n    " + made + " = " + body + "\n    return " + made + "\n\n";
    }
    if (results == 1 && one_in(3)) {
      helpers_ += "def g" + std::to_string(id) + "(" + parameters + "):\n    t = " + name + "(" + parameters +
                  ")\n    return t\n";
      name = "g" + std::to_string(id);
    }
    return name + "(" + (one_in(3) ? named : given) + ")";
  }

  const std::vector<Value>& values_;
  const std::vector<size_t>& outputs_;
  std::vector<std::string> names_;
  std::mt19937_64& random_;
  std::vector<size_t> uses_;
  std::set<size_t> live_;
  std::vector<bool> may_inline_;  // of the live ones, in order
  bool nested_ = false, helped_ = false, commented_ = false;
  std::string helpers_;
};

}  // namespace

void print_epilogue(const std::vector<Value>& values, const std::vector<size_t>& outputs,
                    std::vector<std::string> names, std::mt19937_64& random, EpilogueSpec& spec) {
  Printer(values, outputs, std::move(names), random).run(spec);
}

}  // namespace codetta::test
